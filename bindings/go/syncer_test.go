package duramen

import (
	"fmt"
	"math/rand"
	"testing"

	v2 "github.com/conductorone/baton-sdk/pb/c1/connector/v2"
	"github.com/conductorone/baton-sdk/pkg/connectorstore"
	"github.com/conductorone/baton-sdk/pkg/dotc1z"
	"github.com/conductorone/baton-sdk/pkg/dotc1z/c1zstore"
	"github.com/conductorone/baton-sdk/pkg/dotc1z/c1ztest"
	"github.com/conductorone/baton-sdk/pkg/sdk"
	syncer "github.com/conductorone/baton-sdk/pkg/sync"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/anypb"
)

// nested are groups in groups, some of them in circles, and people in them.
func nested(t testing.TB, random *rand.Rand) (held []*v2.Entitlement, given []*v2.Grant) {
	of := func(i int) *v2.Entitlement {
		name := fmt.Sprintf("g%d", i)
		return v2.Entitlement_builder{Id: "group:" + name + ":member", Resource: v2.Resource_builder{Id: id("group", name)}.Build()}.Build()
	}
	groups := 2 + random.Intn(8)
	for i := range groups {
		held = append(held, of(i))
	}
	for range random.Intn(40) {
		at := held[random.Intn(groups)]
		if random.Intn(2) == 0 {
			given = append(given, grantOf(at, v2.Resource_builder{Id: id("user", fmt.Sprintf("u%d", random.Intn(9)))}.Build()))
			continue
		}
		below := held[random.Intn(groups)]
		row := grantOf(at, below.GetResource())
		row.SetAnnotations([]*anypb.Any{packed(t, v2.GrantExpandable_builder{EntitlementIds: []string{below.GetId()}, Shallow: random.Intn(4) == 0}.Build())})
		given = append(given, row)
	}
	return held, given
}

// expanded lets the SDK's syncer expand a graph that an engine holds, and gives the grants that the SDK's reader finds in the file.
func expanded(t *testing.T, engine c1zstore.Engine, seed int64) []string {
	ctx := t.Context()
	path := file(t, "graph.c1z")
	store := begin(t, engine, path)
	begun, err := store.StartNewSync(ctx, connectorstore.SyncTypeFull, "")
	require.NoError(t, err)
	held, given := nested(t, rand.New(rand.NewSource(seed)))
	require.NoError(t, store.PutResourceTypes(ctx, &v2.ResourceType{Id: "user"}, &v2.ResourceType{Id: "group"}))
	for _, one := range held {
		require.NoError(t, store.PutResources(ctx, one.GetResource()))
	}
	require.NoError(t, store.PutEntitlements(ctx, held...))
	require.NoError(t, store.PutGrants(ctx, given...))
	connector, err := sdk.NewEmptyConnector()
	require.NoError(t, err)
	expander, err := syncer.NewSyncer(ctx, connector, syncer.WithConnectorStore(store), syncer.WithTmpDir(t.TempDir()),
		syncer.WithSyncID(begun), syncer.WithOnlyExpandGrants(), syncer.WithCompactionMergedStore())
	require.NoError(t, err)
	require.NoError(t, expander.Sync(ctx))
	require.NoError(t, expander.Close(ctx))
	reader := open(t, c1zstore.EnginePebble, path, true)
	defer reader.Close(ctx)
	run, err := reader.SyncMeta().LatestFullSync(ctx)
	require.NoError(t, err)
	require.Equal(t, begun, run.ID)
	return ask(func(token string) ([]*v2.Grant, string, error) {
		page, err := reader.ListGrants(ctx, v2.GrantsServiceListGrantsRequest_builder{PageToken: token}.Build())
		return page.GetList(), page.GetNextPageToken(), err
	}).rows
}

// The SDK's syncer makes the same of a graph with both engines.
func TestTheSyncerExpandsAlike(t *testing.T) {
	total := 0
	for seed := range int64(30) {
		want := expanded(t, c1zstore.EnginePebble, seed)
		require.Equal(t, want, expanded(t, Engine, seed), "seed %d", seed)
		total += len(want)
	}
	require.Greater(t, total, 300)
	nothingLeft(t)
}

// The SDK's own helper fills a store, and both engines hold the same then.
func TestTheTestSyncOfTheSDK(t *testing.T) {
	ctx := t.Context()
	counts := c1ztest.C1ZCounts{ResourceTypeCount: 3, ResourceCount: 20, UserCount: 30, EntitlementCount: 10, GrantCount: 200}
	var found [2]map[string]int64
	for i, engine := range []c1zstore.Engine{c1zstore.EnginePebble, Engine} {
		path := file(t, "test.c1z")
		store := begin(t, engine, path)
		syncID, err := c1ztest.CreateTestSync(ctx, t, store, counts)
		require.NoError(t, err)
		require.NoError(t, store.Close(ctx))
		reader, err := dotc1z.NewStore(ctx, path, dotc1z.WithReadOnly(true))
		require.NoError(t, err)
		found[i], err = reader.SyncMeta().Stats(ctx, connectorstore.SyncTypeFull, syncID)
		require.NoError(t, err)
		require.NoError(t, reader.Close(ctx))
	}
	require.Equal(t, found[0], found[1])
	require.NotZero(t, found[1]["grants"])
}
