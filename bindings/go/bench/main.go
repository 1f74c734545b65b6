// Measures the processor time of this engine beside that of the SDK's Pebble engine, for the same work through the same interface.
//
//	go run ./bench [-grants N] [-rounds N] [-engine NAME -work NAME -file FILE]
//
// Every piece of work is a process of its own, so that no garbage of one is collected by another, and engines take turns. What is
// measured is the processor time of the process, its threads and its garbage collection, from before the store is opened until
// after it is closed. What is written is made before. The workload is `unique` of the packs suite: a hundred entitlements,
// which every user holds. What the SDK's syncer expands is a hundredth as many grants, to groups ten deep.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	v2 "github.com/conductorone/baton-sdk/pb/c1/connector/v2"
	"github.com/conductorone/baton-sdk/pkg/connectorstore"
	"github.com/conductorone/baton-sdk/pkg/dotc1z"
	"github.com/conductorone/baton-sdk/pkg/dotc1z/c1zstore"
	"github.com/conductorone/baton-sdk/pkg/sdk"
	syncer "github.com/conductorone/baton-sdk/pkg/sync"
	"google.golang.org/protobuf/types/known/anypb"

	duramen "duramen.test/access"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

// cost is what a piece of work took.
type cost struct {
	Grants    int
	Processor float64
	Wall      float64
	Peak      float64
}

func processorTime() float64 {
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}

func peakMB() float64 {
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return float64(usage.Maxrss) / 1024
}

func grantsOf(count int) []*v2.Grant {
	rows := make([]*v2.Grant, 0, count)
	app := &v2.Resource{Id: &v2.ResourceId{ResourceType: "app", Resource: "github"}}
	for i := range count {
		name := fmt.Sprintf("user-%08d", i/100)
		entitlement := &v2.Entitlement{Id: fmt.Sprintf("app:github:entitlement-%04d", i%100), Resource: app}
		rows = append(rows, &v2.Grant{Id: entitlement.Id + ":user:" + name, Entitlement: entitlement,
			Principal: &v2.Resource{Id: &v2.ResourceId{ResourceType: "user", Resource: name}}})
	}
	return rows
}

// writeNested writes grants to groups ten deep, each of which has the members of two groups below it.
func writeNested(ctx context.Context, engine c1zstore.Engine, path string, count int) {
	const depth, width = 10, 20
	random := rand.New(rand.NewSource(1))
	level := func(depth, i int) *v2.Entitlement {
		name := fmt.Sprintf("g%d-%d", depth, i)
		resource := &v2.Resource{Id: &v2.ResourceId{ResourceType: "group", Resource: name}}
		return &v2.Entitlement{Id: "group:" + name + ":member", Resource: resource}
	}
	grant := func(of *v2.Entitlement, to *v2.Resource) *v2.Grant {
		return &v2.Grant{Id: of.Id + ":" + to.Id.ResourceType + ":" + to.Id.Resource, Entitlement: of, Principal: to}
	}
	check(os.RemoveAll(path))
	store := open(ctx, engine, path, false)
	must(store.StartNewSync(ctx, connectorstore.SyncTypeFull, ""))
	check(store.PutResourceTypes(ctx, &v2.ResourceType{Id: "user"}, &v2.ResourceType{Id: "group"}))
	var rows []*v2.Grant
	for at := range depth {
		for i := range width {
			check(store.PutResources(ctx, level(at, i).Resource))
			check(store.PutEntitlements(ctx, level(at, i)))
			for range min(at, 1) * 2 {
				below := level(at-1, random.Intn(width))
				row := grant(level(at, i), below.Resource)
				row.Annotations = []*anypb.Any{must(anypb.New(&v2.GrantExpandable{EntitlementIds: []string{below.Id}}))}
				rows = append(rows, row)
			}
		}
	}
	for i := range count {
		id := &v2.ResourceId{ResourceType: "user", Resource: fmt.Sprintf("user-%08d", i)}
		rows = append(rows, grant(level(i%depth, (i/depth)%width), &v2.Resource{Id: id}))
	}
	check(store.PutGrants(ctx, rows...))
	check(store.EndSync(ctx))
	check(store.Close(ctx))
}

// expand lets the SDK's syncer expand the grants of a file, and closes it.
func expand(ctx context.Context, store c1zstore.Store) {
	run := must(store.SyncMeta().LatestFullSync(ctx))
	connector := must(sdk.NewEmptyConnector())
	expander := must(syncer.NewSyncer(ctx, connector, syncer.WithConnectorStore(store), syncer.WithTmpDir(os.TempDir()),
		syncer.WithSyncID(run.ID), syncer.WithOnlyExpandGrants(), syncer.WithCompactionMergedStore()))
	check(expander.Sync(ctx))
	check(expander.Close(ctx))
}

func open(ctx context.Context, engine c1zstore.Engine, path string, readOnly bool) c1zstore.Store {
	if engine == duramen.Engine {
		return must(duramen.Open(ctx, path, dotc1z.StoreOptions{ReadOnly: readOnly}))
	}
	return must(dotc1z.NewStore(ctx, path, dotc1z.WithEngine(engine), dotc1z.WithReadOnly(readOnly)))
}

// do does a piece of work in this process.
func do(engine c1zstore.Engine, work, path string, count int) cost {
	ctx := context.Background()
	check(duramen.Register())
	var rows []*v2.Grant
	switch work {
	case "write":
		rows = grantsOf(count)
		check(os.RemoveAll(path))
	case "expand":
		writeNested(ctx, engine, path, count)
		runtime.GC()
	}
	began, wall := processorTime(), time.Now()
	store := open(ctx, engine, path, work == "read")
	found := 0
	switch work {
	case "write":
		must(store.StartNewSync(ctx, connectorstore.SyncTypeFull, ""))
		for some := range slices.Chunk(rows, 10_000) {
			check(store.PutGrants(ctx, some...))
			found += len(some)
		}
		check(store.EndSync(ctx))
	case "read":
		for token := ""; ; {
			page := must(store.ListGrants(ctx, v2.GrantsServiceListGrantsRequest_builder{PageToken: token, PageSize: 10_000}.Build()))
			found += len(page.GetList())
			if token = page.GetNextPageToken(); token == "" {
				break
			}
		}
	case "expand":
		expand(ctx, store)
		found = count
	default:
		log.Fatalf("there is no work %q", work)
	}
	check(store.Close(ctx))
	return cost{found, processorTime() - began, time.Since(wall).Seconds(), peakMB()}
}

// child does a piece of work in a process of its own.
func child(engine c1zstore.Engine, work, path string, count int) cost {
	command := exec.Command(must(os.Executable()), "-engine", string(engine), "-work", work, "-file", path, "-grants", strconv.Itoa(count))
	command.Stderr = os.Stderr
	var found cost
	check(json.Unmarshal(must(command.Output()), &found))
	if found.Grants != count {
		log.Fatalf("%s %s: %d grants, not %d", engine, work, found.Grants, count)
	}
	return found
}

func middle(all []cost, of func(cost) float64) float64 {
	found := make([]float64, 0, len(all))
	for _, one := range all {
		found = append(found, of(one))
	}
	slices.Sort(found)
	return found[len(found)/2]
}

func main() {
	log.SetFlags(0)
	grants := flag.Int("grants", 1_000_000, "how many grants are written and read")
	rounds := flag.Int("rounds", 5, "how often each piece of work is done; the middle one counts")
	engine := flag.String("engine", "", "the engine of a piece of work that is done in this process")
	work := flag.String("work", "", "that piece of work: write, read or expand")
	path := flag.String("file", "", "its file")
	flag.Parse()
	if *engine != "" {
		check(json.NewEncoder(os.Stdout).Encode(do(c1zstore.Engine(*engine), *work, *path, *grants)))
		return
	}
	dir := must(os.MkdirTemp("", "bench"))
	defer os.RemoveAll(dir)
	engines := []c1zstore.Engine{c1zstore.EnginePebble, duramen.Engine}
	fileOf := func(engine c1zstore.Engine) string { return filepath.Join(dir, string(engine)+".c1z") }
	type piece struct{ work, file string }
	pieces := []piece{{"write", ""}, {"read", "pebble"}, {"read", "duramen"}, {"expand", ""}}
	found := map[string][]cost{}
	for range *rounds {
		for _, piece := range pieces {
			for _, engine := range engines {
				file, count := fileOf(engine), *grants
				if piece.file != "" {
					file = fileOf(c1zstore.Engine(piece.file))
				}
				if piece.work == "expand" {
					file, count = filepath.Join(dir, "nested.c1z"), count/100
				}
				name := fmt.Sprint(piece, engine)
				found[name] = append(found[name], child(engine, piece.work, file, count))
			}
		}
	}
	fmt.Printf("%d grants, the middle of %d rounds in turns; processor time, wall time, peak memory\n", *grants, *rounds)
	for _, piece := range pieces {
		var processor [2]float64
		line := strings.TrimSpace(piece.work + " " + piece.file)
		for i, engine := range engines {
			all := found[fmt.Sprint(piece, engine)]
			processor[i] = middle(all, func(c cost) float64 { return c.Processor })
			line += fmt.Sprintf(" | %s %.3f s, %.3f s, %.0f MB", engine, processor[i],
				middle(all, func(c cost) float64 { return c.Wall }), middle(all, func(c cost) float64 { return c.Peak }))
		}
		fmt.Printf("%s | %.1f times\n", line, processor[0]/processor[1])
	}
	for _, engine := range engines {
		fmt.Printf("file of %s: %.1f MB\n", engine, float64(must(os.Stat(fileOf(engine))).Size())/1e6)
	}
}
