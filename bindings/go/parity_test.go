package duramen

import (
	"context"
	"fmt"
	"io"
	"maps"
	"testing"

	v2 "github.com/conductorone/baton-sdk/pb/c1/connector/v2"
	reader_v2 "github.com/conductorone/baton-sdk/pb/c1/reader/v2"
	"github.com/conductorone/baton-sdk/pkg/connectorstore"
	"github.com/conductorone/baton-sdk/pkg/dotc1z/c1zstore"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// answer is what a store gives when all pages of a question are asked for: rows as text, or the code of an error.
type answer struct {
	rows  []string
	code  codes.Code
	pages int
}

// ask asks for all pages.
func ask[T proto.Message](page func(token string) ([]T, string, error)) answer {
	found := answer{}
	token := ""
	for {
		rows, next, err := page(token)
		found.pages++
		if err != nil {
			return answer{code: status.Code(err)}
		}
		for _, row := range rows {
			// The order of a map is random on the wire, and not in JSON.
			text, err := protojson.MarshalOptions{}.Marshal(row)
			if err != nil {
				panic(err)
			}
			found.rows = append(found.rows, compact(text))
		}
		if token = next; token == "" {
			return found
		}
	}
}

// compact takes the spaces out, which protojson puts in at random so that nobody relies on them.
func compact(text []byte) string {
	found, isText := make([]byte, 0, len(text)), false
	for i, char := range text {
		if char == '"' && (i == 0 || text[i-1] != '\\') {
			isText = !isText
		}
		if char != ' ' || isText {
			found = append(found, char)
		}
	}
	return string(found)
}

func one[T proto.Message](row T, err error) ([]T, string, error) { return []T{row}, "", err }

// questions are all that a reader can be asked, with pages of a size.
func questions(ctx context.Context, s c1zstore.Store, size uint32) map[string]answer {
	found := map[string]answer{}
	found["resource types"] = ask(func(token string) ([]*v2.ResourceType, string, error) {
		page, err := s.ListResourceTypes(ctx, v2.ResourceTypesServiceListResourceTypesRequest_builder{PageSize: size, PageToken: token}.Build())
		return page.GetList(), page.GetNextPageToken(), err
	})
	for _, name := range []string{"user", "nobody"} {
		found["resource type "+name] = ask(func(string) ([]*v2.ResourceType, string, error) {
			row, err := s.GetResourceType(ctx, reader_v2.ResourceTypesReaderServiceGetResourceTypeRequest_builder{ResourceTypeId: name}.Build())
			return one(row.GetResourceType(), err)
		})
	}
	for _, parent := range []*v2.ResourceId{nil, id("group", "g00"), id("group", "g04")} {
		for _, kind := range []string{"", "user", "group", "nothing"} {
			found[fmt.Sprint("resources of ", parent, kind)] = ask(func(token string) ([]*v2.Resource, string, error) {
				page, err := s.ListResources(ctx, v2.ResourcesServiceListResourcesRequest_builder{
					ParentResourceId: parent, ResourceTypeId: kind, PageSize: size, PageToken: token}.Build())
				return page.GetList(), page.GetNextPageToken(), err
			})
		}
	}
	for _, one := range []*v2.ResourceId{id("user", "u0003"), id("group", "g02"), id("user", "nobody"), id("odd \x01\x00\u00fc", "r\x00\x01")} {
		found[fmt.Sprint("resource ", one)] = ask(func(string) ([]*v2.Resource, string, error) {
			row, err := s.GetResource(ctx, reader_v2.ResourcesReaderServiceGetResourceRequest_builder{ResourceId: one}.Build())
			return []*v2.Resource{row.GetResource()}, "", err
		})
	}
	found["resources by ids"] = ask(func(string) ([]*v2.Resource, string, error) {
		page, err := s.ListResourcesByIds(ctx, reader_v2.ResourcesReaderServiceListResourcesByIdsRequest_builder{
			ResourceIds: []*v2.ResourceId{id("user", "u0007"), id("user", "nobody"), id("group", "g00")}}.Build())
		return page.GetList(), "", err
	})
	for _, resource := range []*v2.Resource{nil, group(1), {Id: id("app", "github")}, {Id: id("app", "none")}} {
		found[fmt.Sprint("entitlements of ", resource.GetId())] = ask(func(token string) ([]*v2.Entitlement, string, error) {
			page, err := s.ListEntitlements(ctx, v2.EntitlementsServiceListEntitlementsRequest_builder{Resource: resource, PageSize: size, PageToken: token}.Build())
			return page.GetList(), page.GetNextPageToken(), err
		})
		found[fmt.Sprint("grants of ", resource.GetId())] = ask(func(token string) ([]*v2.Grant, string, error) {
			page, err := s.ListGrants(ctx, v2.GrantsServiceListGrantsRequest_builder{Resource: resource, PageSize: size, PageToken: token}.Build())
			return page.GetList(), page.GetNextPageToken(), err
		})
	}
	for _, name := range []string{"group:g03:member", "role-1", "nothing"} {
		found["entitlement "+name] = ask(func(string) ([]*v2.Entitlement, string, error) {
			row, err := s.GetEntitlement(ctx, reader_v2.EntitlementsReaderServiceGetEntitlementRequest_builder{EntitlementId: name}.Build())
			return one(row.GetEntitlement(), err)
		})
	}
	found["entitlements by ids"] = ask(func(string) ([]*v2.Entitlement, string, error) {
		page, err := s.ListEntitlementsByIds(ctx, reader_v2.EntitlementsReaderServiceListEntitlementsByIdsRequest_builder{
			EntitlementIds: []string{"role-2", "nothing", "group:g00:member"}}.Build())
		return page.GetList(), "", err
	})
	whole := v2.Entitlement_builder{Id: "role-1", Resource: v2.Resource_builder{Id: id("app", "github")}.Build()}.Build()
	for name, of := range map[string]*v2.Entitlement{
		"whole": whole, "by id": {Id: "role-2"}, "member": member(2), "unknown": {Id: "nothing"},
		"unknown whole": {Id: "nothing", Resource: group(1)},
	} {
		for _, principal := range []*v2.ResourceId{nil, id("user", "u0001"), id("user", "u0002"), id("user", "nobody")} {
			for _, kinds := range [][]string{nil, {"user"}, {"group", "app"}} {
				found[fmt.Sprint("grants of entitlement ", name, principal, kinds)] = ask(func(token string) ([]*v2.Grant, string, error) {
					page, err := s.ListGrantsForEntitlement(ctx, reader_v2.GrantsReaderServiceListGrantsForEntitlementRequest_builder{
						Entitlement: of, PrincipalId: principal, PrincipalResourceTypeIds: kinds, PageSize: size, PageToken: token}.Build())
					return page.GetList(), page.GetNextPageToken(), err
				})
			}
		}
	}
	found["grants of entitlements"] = ask(func(token string) ([]*v2.Grant, string, error) {
		page, err := s.ListGrantsForEntitlements(ctx, reader_v2.GrantsReaderServiceListGrantsForEntitlementsRequest_builder{
			Entitlements: []*v2.Entitlement{whole, member(0), {Id: "nothing"}, {Id: "role-0"}}, PageSize: size, PageToken: token}.Build())
		return page.GetList(), page.GetNextPageToken(), err
	})
	for _, principal := range []*v2.ResourceId{id("user", "u0001"), id("group", "g01"), id("user", "nobody")} {
		for _, of := range []*v2.Entitlement{nil, whole, {Id: "role-1"}, {Id: "nothing"}} {
			found[fmt.Sprint("grants of principal ", principal, of.GetId(), of.GetResource() != nil)] = ask(func(token string) ([]*v2.Grant, string, error) {
				page, err := s.ListGrantsForPrincipal(ctx, reader_v2.GrantsReaderServiceListGrantsForPrincipalRequest_builder{
					PrincipalId: principal, Entitlement: of, PageSize: size, PageToken: token}.Build())
				return page.GetList(), page.GetNextPageToken(), err
			})
		}
	}
	for _, name := range []string{"grant 6", "role-1:user:u0001", "nothing", "no:such:grant", "group:g01:member:user:u0001"} {
		found["grant "+name] = ask(func(string) ([]*v2.Grant, string, error) {
			row, err := s.GetGrant(ctx, reader_v2.GrantsReaderServiceGetGrantRequest_builder{GrantId: name}.Build())
			return one(row.GetGrant(), err)
		})
	}
	for name, page := range map[string]func(string) ([]c1zstore.GrantAnnotation, string, error){
		"all": func(token string) ([]c1zstore.GrantAnnotation, string, error) {
			return s.Grants().ListWithAnnotationsPage(ctx, token)
		},
		"resource": func(token string) ([]c1zstore.GrantAnnotation, string, error) {
			return s.Grants().ListWithAnnotationsForResourcePage(ctx, whole.GetResource(), "", token, size)
		},
	} {
		said := answer{}
		rows := ask(func(token string) ([]*v2.Grant, string, error) {
			found, next, err := page(token)
			var rows []*v2.Grant
			for _, row := range found {
				rows = append(rows, row.Grant)
				said.rows = append(said.rows, fmt.Sprint(row.GrantExternalID, row.TargetEntitlementID, row.PrincipalResourceTypeID,
					row.PrincipalResourceID, row.NeedsExpansion, row.Annotation.GetEntitlementIds(), row.Annotation.GetShallow()))
			}
			return rows, next, err
		})
		found["annotated "+name], found["said of annotated "+name] = rows, said
	}
	return found
}

// byPrincipalType asks what engines answer in orders of their own.
func byPrincipalType(ctx context.Context, s c1zstore.Store, size uint32) map[string]bool {
	found := map[string]bool{}
	for _, kind := range []string{"user", "group", "app"} {
		all := ask(func(token string) ([]*v2.Grant, string, error) {
			page, err := s.ListGrantsForResourceType(ctx, reader_v2.GrantsReaderServiceListGrantsForResourceTypeRequest_builder{
				ResourceTypeId: kind, PageSize: size, PageToken: token}.Build())
			return page.GetList(), page.GetNextPageToken(), err
		})
		for _, row := range all.rows {
			found[kind+row] = true
		}
		found[fmt.Sprint(kind, len(all.rows))] = true
	}
	for row, err := range s.Grants().PendingExpansion(ctx) {
		found[fmt.Sprint("pending ", row.GrantExternalID, row.TargetEntitlementID, row.PrincipalResourceID, row.Annotation.GetEntitlementIds(), err)] = true
	}
	return found
}

// Pebble and this engine answer alike, row by row and in the same order: while a sync is written, when it has ended, from files
// that either wrote, and with both engines reading both files.
func TestAnswersAreThoseOfPebble(t *testing.T) {
	ctx := t.Context()
	paths := map[c1zstore.Engine]string{c1zstore.EnginePebble: file(t, "pebble.c1z"), Engine: file(t, "duramen.c1z")}
	stores := map[c1zstore.Engine]c1zstore.Store{}
	syncs := map[c1zstore.Engine]string{}
	same := func(when string) {
		t.Helper()
		total := 0
		for _, size := range []uint32{0, 1, 3, 100} {
			want, got := questions(ctx, stores[c1zstore.EnginePebble], size), questions(ctx, stores[Engine], size)
			for name, wanted := range want {
				require.Equal(t, wanted.rows, got[name].rows, "%s, pages of %d: %s", when, size, name)
				require.Equal(t, wanted.code, got[name].code, "%s, pages of %d: %s", when, size, name)
				total += len(wanted.rows)
			}
			require.Len(t, got, len(want))
			require.Equal(t, byPrincipalType(ctx, stores[c1zstore.EnginePebble], size), byPrincipalType(ctx, stores[Engine], size), when)
		}
		require.Greater(t, total, 1000, "questions that find nothing compare nothing")
		for _, kind := range []connectorstore.SyncType{connectorstore.SyncTypeAny, connectorstore.SyncTypeFull, connectorstore.SyncTypePartial} {
			for _, named := range []bool{true, false} {
				var counts [2]map[string]int64
				var errors [2]error
				for i, engine := range []c1zstore.Engine{c1zstore.EnginePebble, Engine} {
					sync := ""
					if named {
						sync = syncs[engine]
					}
					counts[i], errors[i] = stores[engine].SyncMeta().Stats(ctx, kind, sync)
				}
				require.Equal(t, counts[0], counts[1], "%s: %s", when, kind)
				require.Equal(t, status.Code(errors[0]), status.Code(errors[1]), "%s: %s", when, kind)
			}
		}
		for _, store := range stores {
			kind, data, err := store.GetAsset(ctx, v2.AssetServiceGetAssetRequest_builder{Asset: v2.AssetRef_builder{Id: "icon"}.Build()}.Build())
			require.NoError(t, err, when)
			bytes, err := io.ReadAll(data)
			require.NoError(t, err)
			require.Equal(t, "image/png\x89PNG, or nearly so", kind+string(bytes))
		}
	}
	for engine, path := range paths {
		stores[engine] = begin(t, engine, path)
		syncs[engine] = fill(t, stores[engine], 40)
		require.NoError(t, stores[engine].CheckpointSync(ctx, "half way"))
	}
	same("being written")
	for _, store := range stores {
		require.NoError(t, store.EndSync(ctx))
		require.NoError(t, store.Close(ctx))
	}
	written := maps.Clone(syncs)
	for writer, path := range paths {
		for _, readOnly := range []bool{true, false} {
			for reader := range paths {
				stores[reader] = open(t, reader, path, readOnly)
				syncs[reader] = written[writer]
			}
			same(fmt.Sprintf("written by %s, read only: %v", writer, readOnly))
			for _, store := range stores {
				run, err := store.SyncMeta().LatestFullSync(ctx)
				require.NoError(t, err)
				require.Equal(t, written[writer], run.ID)
				require.Equal(t, "half way", run.SyncToken)
				require.NoError(t, store.Close(ctx))
			}
		}
	}
	nothingLeft(t)
}
