package duramen

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	v2 "github.com/conductorone/baton-sdk/pb/c1/connector/v2"
	"github.com/conductorone/baton-sdk/pkg/connectorstore"
	"github.com/conductorone/baton-sdk/pkg/dotc1z"
	"github.com/conductorone/baton-sdk/pkg/dotc1z/c1zstore"
	"github.com/conductorone/baton-sdk/pkg/types/sessions"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

func listAll(t testing.TB, s c1zstore.Store) []*v2.Grant {
	t.Helper()
	var rows []*v2.Grant
	for row, err := range pages(func(token string) ([]*v2.Grant, string, error) {
		page, err := s.ListGrants(context.Background(), v2.GrantsServiceListGrantsRequest_builder{PageToken: token, PageSize: 50}.Build())
		return page.GetList(), page.GetNextPageToken(), err
	}) {
		require.NoError(t, err)
		rows = append(rows, row)
	}
	return rows
}

// A file that this engine begins through the SDK's registry is one that the SDK's own engine opens.
func TestTheRegistryOpensIt(t *testing.T) {
	ctx := t.Context()
	require.NoError(t, Register())
	require.NoError(t, Register())
	require.ErrorContains(t, dotc1z.RegisterEngine(driver{}), "already registered")
	path := file(t, "sync.c1z")
	store := begin(t, Engine, path)
	require.IsType(t, (*Store)(nil), store)
	require.Equal(t, connectorstore.StoreMetadata{Engine: "duramen", Format: "v3", PayloadEncoding: "indexed_zstd"}, store.Metadata())
	fill(t, store, 9)
	require.NoError(t, store.EndSync(ctx))
	want := listAll(t, store)
	require.NoError(t, store.Close(ctx))
	require.NoError(t, store.Close(ctx))

	// What the header of the file says counts, not what is asked for.
	again := begin(t, Engine, path)
	require.Equal(t, "pebble", again.Metadata().Engine)
	found := listAll(t, again)
	require.Len(t, found, len(want))
	for i := range want {
		require.True(t, proto.Equal(want[i], found[i]), "%v\n%v", want[i], found[i])
	}
	require.NoError(t, again.Close(ctx))
	nothingLeft(t)
}

// What Close does not write is not there: a process that ends before leaves the file as it was.
func TestTheFileIsWrittenWhenItIsClosed(t *testing.T) {
	ctx := t.Context()
	path := file(t, "sync.c1z")
	store := begin(t, Engine, path)
	first := fill(t, store, 20)
	require.NoError(t, store.CheckpointSync(ctx, "page 17"))
	_, err := os.Stat(path)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, store.Close(ctx))

	// Another process goes on.
	store = open(t, Engine, path, false)
	resumed, started, err := store.StartOrResumeSync(ctx, connectorstore.SyncTypeFull, "")
	require.NoError(t, err)
	require.False(t, started)
	require.Equal(t, first, resumed)
	step, err := store.CurrentSyncStep(ctx)
	require.NoError(t, err)
	require.Equal(t, "page 17", step)
	before := len(listAll(t, store))
	require.NoError(t, store.PutGrants(ctx, grantOf(member(1), user(t, 9999))))
	require.Len(t, listAll(t, store), before+1)
	require.NoError(t, store.EndSync(ctx))
	require.NoError(t, store.SyncMeta().MarkSyncSupportsDiff(ctx, first))
	require.NoError(t, store.Close(ctx))

	store = open(t, Engine, path, false)
	run, err := store.SyncMeta().LatestFullSync(ctx)
	require.NoError(t, err)
	require.True(t, run.SupportsDiff)
	require.WithinDuration(t, time.Now(), *run.EndedAt, time.Minute)
	require.Len(t, listAll(t, store), before+1)
	clone := file(t, "clone.c1z")
	require.NoError(t, store.FileOps().CloneSync(ctx, clone, first))
	require.Equal(t, codes.AlreadyExists, status.Code(store.FileOps().CloneSync(ctx, clone, first)))

	// A sync that has ended is not resumed, and one that is begun takes its place.
	second, started, err := store.StartOrResumeSync(ctx, connectorstore.SyncTypeFull, "")
	require.NoError(t, err)
	require.True(t, started)
	require.NotEqual(t, first, second)
	require.Empty(t, listAll(t, store))
	require.NoError(t, store.Close(ctx))
	cloned := open(t, c1zstore.EnginePebble, clone, true)
	require.Len(t, listAll(t, cloned), before+1)
	require.NoError(t, cloned.Close(ctx))
	nothingLeft(t)
}

func TestWhatIsRefused(t *testing.T) {
	ctx := t.Context()
	path := file(t, "sync.c1z")
	_, err := Open(ctx, path, dotc1z.StoreOptions{ReadOnly: true})
	require.ErrorContains(t, err, "does not exist")
	store := begin(t, Engine, path).(*Store)
	require.ErrorIs(t, store.PutGrants(ctx, grantOf(member(1), user(t, 1))), ErrNoCurrentSync)
	_, err = store.ListGrants(ctx, &v2.GrantsServiceListGrantsRequest{})
	require.ErrorIs(t, err, ErrNoCurrentSync)
	syncID := fill(t, store, 5)
	for name, err := range map[string]error{
		"an empty id": store.PutGrants(ctx, &v2.Grant{Id: "x"}),
		"not UTF-8":   store.PutGrants(ctx, grantOf(member(1), v2.Resource_builder{Id: id("user", "\xff")}.Build())),
		"a moved id": store.PutEntitlements(ctx,
			v2.Entitlement_builder{Id: "role-1", Resource: group(1)}.Build()),
	} {
		require.Equal(t, codes.InvalidArgument, status.Code(err), "%s: %v", name, err)
	}
	for _, token := range []string{"not a token", "AAAA"} {
		_, err = store.ListGrants(ctx, v2.GrantsServiceListGrantsRequest_builder{PageToken: token}.Build())
		require.Equal(t, codes.InvalidArgument, status.Code(err), "%v", err)
	}
	// A token of another list.
	page, err := store.ListResources(ctx, v2.ResourcesServiceListResourcesRequest_builder{PageSize: 1}.Build())
	require.NoError(t, err)
	_, err = store.ListGrants(ctx, v2.GrantsServiceListGrantsRequest_builder{PageToken: page.GetNextPageToken()}.Build())
	require.Equal(t, codes.InvalidArgument, status.Code(err), "%v", err)
	_, err = store.ResumeSync(ctx, connectorstore.SyncTypeFull, "another")
	require.Equal(t, codes.NotFound, status.Code(err))
	_, err = store.FileOps().GenerateSyncDiff(ctx, syncID, syncID)
	require.Equal(t, codes.Unimplemented, status.Code(err))
	require.Equal(t, codes.FailedPrecondition, status.Code(store.FileOps().CloneSync(ctx, file(t, "clone.c1z"), syncID)))
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorIs(t, store.PutGrants(cancelled, grantOf(member(1), user(t, 1))), context.Canceled)
	require.NoError(t, store.EndSync(ctx))
	require.NoError(t, store.Close(ctx))
	_, err = store.ListGrants(ctx, &v2.GrantsServiceListGrantsRequest{})
	require.Equal(t, codes.FailedPrecondition, status.Code(err))
	require.ErrorContains(t, err, "closed")

	reader := open(t, Engine, path, true)
	require.Equal(t, codes.FailedPrecondition, status.Code(reader.PutGrants(ctx, grantOf(member(1), user(t, 1)))))
	require.NoError(t, reader.Close(ctx))

	// A file that was cut, and one that is something else.
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, whole[:len(whole)/2], 0o600))
	_, err = Open(ctx, path, dotc1z.StoreOptions{})
	require.Equal(t, codes.DataLoss, status.Code(err))
	require.ErrorContains(t, err, path)
	require.NoError(t, os.WriteFile(path, []byte("something else"), 0o600))
	_, err = Open(ctx, path, dotc1z.StoreOptions{})
	require.Equal(t, codes.DataLoss, status.Code(err))
	_, err = Open(ctx, path, dotc1z.StoreOptions{MaxDecodedPayloadBytes: 1})
	require.Error(t, err)
	nothingLeft(t)
}

// What is listed is a copy: it stays what it is when its page is freed, the store closed, and memory used again.
func TestWhatIsListedStays(t *testing.T) {
	ctx := t.Context()
	path := file(t, "sync.c1z")
	store := begin(t, Engine, path)
	fill(t, store, 300)
	listed := listAll(t, store)
	var kept []*v2.Grant
	for _, row := range listed {
		kept = append(kept, proto.Clone(row).(*v2.Grant))
	}
	for i := range 50 {
		require.NoError(t, store.PutGrants(ctx, grantOf(member(2), user(t, i))))
		listAll(t, store)
	}
	require.NoError(t, store.Close(ctx))
	nothingLeft(t)
	for i := range kept {
		require.True(t, proto.Equal(kept[i], listed[i]))
	}
	// What was given may be changed as soon as a call returns.
	name := []byte("mutable")
	store = open(t, Engine, path, false)
	row := grantOf(member(1), v2.Resource_builder{Id: id("user", string(name))}.Build())
	require.NoError(t, store.PutGrants(ctx, row))
	row.SetId(strings.Repeat("x", len(row.GetId())))
	require.NoError(t, store.PutGrants(ctx))
	require.NoError(t, store.Close(ctx))
	nothingLeft(t)
}

// Many goroutines use one store, and open others; `go test -race` looks on.
func TestGoroutinesShareAStore(t *testing.T) {
	ctx := t.Context()
	store := begin(t, Engine, file(t, "shared.c1z"))
	fill(t, store, 50)
	before := len(listAll(t, store))
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := range 30 {
				principal := v2.Resource_builder{Id: id("user", "worker-"+string(rune('a'+worker))+"-"+string(rune('a'+i)))}.Build()
				if err := store.PutGrants(ctx, grantOf(member(worker%5), principal)); err != nil {
					t.Error(err)
				}
				listAll(t, store)
				if _, err := store.SyncMeta().Stats(ctx, connectorstore.SyncTypeAny, ""); status.Code(err) != codes.NotFound {
					t.Error("a sync that goes on has no figures", err)
				}
				other, err := Open(ctx, t.TempDir()+"/other.c1z", dotc1z.StoreOptions{})
				if err != nil {
					t.Error(err)
				}
				if err := other.Close(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	require.Len(t, listAll(t, store), before+8*30)
	require.NoError(t, store.EndSync(ctx))
	require.NoError(t, store.Close(ctx))
	nothingLeft(t)
}

func TestSessionsAreKeptBySyncAndPrefix(t *testing.T) {
	ctx := t.Context()
	store := begin(t, Engine, file(t, "session.c1z"))
	defer store.Close(ctx)
	one, other := sessions.WithSyncID("one"), sessions.WithSyncID("other")
	kept := store.SessionStore()
	require.NoError(t, kept.SetMany(ctx, map[string][]byte{"a": []byte("1"), "b": []byte("2")}, one, sessions.WithPrefix("p/")))
	require.NoError(t, kept.Set(ctx, "a", []byte("3"), other))
	value, found, err := kept.Get(ctx, "p/a", one)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, "1", string(value))
	values, left, err := kept.GetMany(ctx, []string{"a", "b", "c"}, one, sessions.WithPrefix("p/"))
	require.NoError(t, err)
	require.Empty(t, left)
	require.Equal(t, map[string][]byte{"a": []byte("1"), "b": []byte("2")}, values)
	big := make([]byte, sessions.MaxSessionStoreSizeLimit/2+1)
	require.NoError(t, kept.SetMany(ctx, map[string][]byte{"c": big, "d": big}, one, sessions.WithPrefix("p/")))
	values, left, err = kept.GetMany(ctx, []string{"c", "d", "a"}, one, sessions.WithPrefix("p/"))
	require.NoError(t, err)
	require.Len(t, values, 1)
	require.Equal(t, []string{"d", "a"}, left)
	all, token := map[string][]byte{}, ""
	for {
		values, next, err := kept.GetAll(ctx, token, one, sessions.WithPrefix("p/"))
		require.NoError(t, err)
		for key, value := range values {
			all[key] = value
		}
		if token = next; token == "" {
			break
		}
	}
	require.Len(t, all, 4)
	require.NoError(t, kept.Delete(ctx, "a", one, sessions.WithPrefix("p/")))
	require.NoError(t, kept.Clear(ctx, one, sessions.WithPrefix("p/")))
	values, _, err = kept.GetAll(ctx, "", one)
	require.NoError(t, err)
	require.Empty(t, values)
	_, found, err = kept.Get(ctx, "a", other)
	require.NoError(t, err)
	require.True(t, found)
	_, _, err = kept.Get(ctx, "a")
	require.Equal(t, codes.InvalidArgument, status.Code(err))
}
