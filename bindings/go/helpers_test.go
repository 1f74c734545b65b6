package duramen

import (
	"fmt"
	"math/rand"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	v2 "github.com/conductorone/baton-sdk/pb/c1/connector/v2"
	"github.com/conductorone/baton-sdk/pkg/connectorstore"
	"github.com/conductorone/baton-sdk/pkg/dotc1z"
	"github.com/conductorone/baton-sdk/pkg/dotc1z/c1zstore"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// begin begins a file with one of the SDK's engines, or with this one.
func begin(t testing.TB, engine c1zstore.Engine, path string) c1zstore.Store {
	t.Helper()
	require.NoError(t, Register())
	store, err := dotc1z.NewStore(t.Context(), path, dotc1z.WithEngine(engine))
	require.NoError(t, err)
	return store
}

// open opens a file that is there with the SDK, which takes its own engine, or with this engine.
func open(t testing.TB, engine c1zstore.Engine, path string, readOnly bool) c1zstore.Store {
	t.Helper()
	if engine == Engine {
		store, err := Open(t.Context(), path, dotc1z.StoreOptions{ReadOnly: readOnly})
		require.NoError(t, err)
		return store
	}
	store, err := dotc1z.NewStore(t.Context(), path, dotc1z.WithReadOnly(readOnly))
	require.NoError(t, err)
	return store
}

func file(t testing.TB, name string) string { return filepath.Join(t.TempDir(), name) }

// nothingLeft checks that the library holds nothing for this package any more.
func nothingLeft(t testing.TB) {
	t.Helper()
	graphs, pieces := live()
	require.Zero(t, graphs, "graphs that are open")
	require.Zero(t, pieces, "pieces of memory that are not freed")
	runtime.GC()
}

func packed(t testing.TB, message proto.Message) *anypb.Any {
	t.Helper()
	found, err := anypb.New(message)
	require.NoError(t, err)
	return found
}

func id(kind, name string) *v2.ResourceId {
	return v2.ResourceId_builder{ResourceType: kind, Resource: name}.Build()
}

func user(t testing.TB, i int) *v2.Resource {
	row := v2.Resource_builder{Id: id("user", fmt.Sprintf("u%04d", i)), DisplayName: fmt.Sprintf("User %d", i)}
	if i%3 == 0 {
		profile, err := structpb.NewStruct(map[string]any{"email": fmt.Sprintf("u%d@example.org", i), "level": i})
		require.NoError(t, err)
		row.Profile = profile
		row.CreatedAt = &timestamppb.Timestamp{Seconds: 1_600_000_000 + int64(i), Nanos: int32(i)}
		row.Status = v2.Status_builder{Status: v2.Status_RESOURCE_STATUS_ENABLED, Details: "here"}.Build()
	}
	if i%5 == 0 {
		row.Annotations = []*anypb.Any{packed(t, &v2.ExternalLink{Url: fmt.Sprintf("https://example.org/%d", i)})}
		row.Icon = v2.AssetRef_builder{Id: "icon"}.Build()
	}
	return row.Build()
}

func group(i int) *v2.Resource {
	row := v2.Resource_builder{Id: id("group", fmt.Sprintf("g%02d", i)), DisplayName: "Group " + strconv.Itoa(i), Description: "a group"}
	if i > 0 {
		row.ParentResourceId = id("group", "g00")
	}
	return row.Build()
}

func member(i int) *v2.Entitlement {
	return v2.Entitlement_builder{Resource: group(i), Id: fmt.Sprintf("group:g%02d:member", i), DisplayName: "Member", Slug: "member",
		Purpose:     v2.Entitlement_PURPOSE_VALUE_ASSIGNMENT,
		GrantableTo: []*v2.ResourceType{v2.ResourceType_builder{Id: "user", DisplayName: "User"}.Build()}}.Build()
}

func role(t testing.TB, i int) *v2.Entitlement {
	return v2.Entitlement_builder{Resource: v2.Resource_builder{Id: id("app", "github")}.Build(), Id: "role-" + strconv.Itoa(i),
		DisplayName: "Role", Description: "a role", Purpose: v2.Entitlement_PURPOSE_VALUE_PERMISSION,
		Annotations: []*anypb.Any{packed(t, &v2.EntitlementImmutable{SourceId: "source"})}}.Build()
}

func grantOf(entitlement *v2.Entitlement, principal *v2.Resource) *v2.Grant {
	return v2.Grant_builder{Entitlement: entitlement, Principal: principal,
		Id: fmt.Sprintf("%s:%s:%s", entitlement.GetId(), principal.GetId().GetResourceType(), principal.GetId().GetResource())}.Build()
}

func grantsOf(t testing.TB, users int) []*v2.Grant {
	var rows []*v2.Grant
	for i := range users {
		row := grantOf(member(i%5), user(t, i))
		if i%4 == 0 {
			row.SetAnnotations([]*anypb.Any{packed(t, &v2.GrantImmutable{SourceId: strconv.Itoa(i)})})
		}
		if i%6 == 0 {
			row.SetId("grant " + strconv.Itoa(i))
		}
		if i%7 == 0 {
			row.SetSources(v2.GrantSources_builder{Sources: map[string]*v2.GrantSources_GrantSource{
				"group:g00:member": v2.GrantSources_GrantSource_builder{IsDirect: i%2 == 0}.Build(), "group:g01:member": {}}}.Build())
		}
		rows = append(rows, row, grantOf(role(t, i%3), user(t, i)))
	}
	for i := range 5 {
		row := grantOf(role(t, i), group(i))
		row.SetAnnotations([]*anypb.Any{packed(t, v2.GrantExpandable_builder{EntitlementIds: []string{member(i).GetId()},
			Shallow: i%2 == 1, ResourceTypeIds: []string{"user"}}.Build())})
		rows = append(rows, row)
	}
	return rows
}

// fill puts a whole graph with so many users into a sync, rows in any order.
func fill(t testing.TB, store c1zstore.Store, users int) string {
	t.Helper()
	ctx := t.Context()
	syncID, err := store.StartNewSync(ctx, connectorstore.SyncTypeFull, "")
	require.NoError(t, err)
	require.NoError(t, store.PutResourceTypes(ctx,
		v2.ResourceType_builder{Id: "user", DisplayName: "User", Traits: []v2.ResourceType_Trait{v2.ResourceType_TRAIT_USER},
			Annotations: []*anypb.Any{packed(t, &v2.SkipEntitlementsAndGrants{})}}.Build(),
		v2.ResourceType_builder{Id: "group", Description: "People", Traits: []v2.ResourceType_Trait{v2.ResourceType_TRAIT_GROUP}}.Build(),
		v2.ResourceType_builder{Id: "app", SourcedExternally: true}.Build(),
		v2.ResourceType_builder{Id: "odd \x01\x00\u00fc", DisplayName: "Escapes"}.Build()))
	rows := []*v2.Resource{
		v2.Resource_builder{Id: id("app", "github"), DisplayName: "GitHub"}.Build(),
		v2.Resource_builder{Id: id("odd \x01\x00\u00fc", "r\x00\x01")}.Build(),
	}
	var held []*v2.Entitlement
	for i := range 5 {
		rows = append(rows, group(i))
		held = append(held, member(i), role(t, i))
	}
	for i := range users {
		rows = append(rows, user(t, i))
	}
	random := rand.New(rand.NewSource(int64(users)))
	given := grantsOf(t, users)
	random.Shuffle(len(rows), func(a, b int) { rows[a], rows[b] = rows[b], rows[a] })
	random.Shuffle(len(given), func(a, b int) { given[a], given[b] = given[b], given[a] })
	require.NoError(t, store.PutResources(ctx, rows...))
	require.NoError(t, store.PutEntitlements(ctx, held...))
	require.NoError(t, store.PutGrants(ctx, given...))
	require.NoError(t, store.PutAsset(ctx, v2.AssetRef_builder{Id: "icon"}.Build(), "image/png", []byte("\x89PNG, or nearly so")))
	// Some again, and some not any more.
	require.NoError(t, store.PutGrants(ctx, given[:len(given)/3]...))
	for i := 0; i < len(given); i += 5 {
		require.NoError(t, store.DeleteGrant(ctx, given[i].GetId()))
	}
	return syncID
}
