package duramen

import (
	"context"
	"fmt"
	"math/rand"
	"path/filepath"
	"testing"

	v2 "github.com/conductorone/baton-sdk/pb/c1/connector/v2"
	reader_v2 "github.com/conductorone/baton-sdk/pb/c1/reader/v2"
	v3 "github.com/conductorone/baton-sdk/pb/c1/storage/v3"
	"github.com/conductorone/baton-sdk/pkg/connectorstore"
	"github.com/conductorone/baton-sdk/pkg/dotc1z"
	"github.com/conductorone/baton-sdk/pkg/dotc1z/engine/equivalence"
	enginepkg "github.com/conductorone/baton-sdk/pkg/dotc1z/engine/pebble"
	"github.com/segmentio/ksuid"
	"github.com/stretchr/testify/require"
)

// reference lets the SDK's own equivalence runner drive a store of this engine. With saved, the store is closed and opened again
// after the last change, so that what is read comes from a file.
type reference struct {
	t     *testing.T
	store *Store
	path  string
	saved bool
}

var _ equivalence.Reference = (*reference)(nil)

func newReference(t *testing.T, saved bool) *reference {
	path := filepath.Join(t.TempDir(), "reference.c1z")
	store, err := Open(t.Context(), path, dotc1z.StoreOptions{})
	require.NoError(t, err)
	found := &reference{t: t, store: store, path: path, saved: saved}
	t.Cleanup(func() { require.NoError(t, found.store.Close(context.Background())) })
	return found
}

func (r *reference) SetCurrentSync(ctx context.Context, syncID string) error {
	_, err := r.store.StartNewSyncWithID(ctx, connectorstore.SyncTypeFull, syncID, "")
	return err
}

func (r *reference) PutGrantRecord(ctx context.Context, record *v3.GrantRecord) error {
	return r.store.PutGrants(ctx, enginepkg.V3GrantToV2(record))
}

func (r *reference) DeleteGrantRecord(ctx context.Context, externalID string) error {
	return r.store.DeleteGrant(ctx, externalID)
}

// reading saves what was written.
func (r *reference) reading(ctx context.Context) error {
	if !r.saved || !r.store.dirty {
		return nil
	}
	if err := r.store.Close(ctx); err != nil {
		return err
	}
	store, err := Open(ctx, r.path, dotc1z.StoreOptions{})
	if err == nil {
		r.store = store
	}
	return err
}

func (r *reference) GetGrantRecord(ctx context.Context, externalID string) (*v3.GrantRecord, error) {
	if err := r.reading(ctx); err != nil {
		return nil, err
	}
	found, err := r.store.GetGrant(ctx, reader_v2.GrantsReaderServiceGetGrantRequest_builder{GrantId: externalID}.Build())
	return enginepkg.V2GrantToV3("", found.GetGrant()), err
}

func (r *reference) each(ctx context.Context, yield func(*v3.GrantRecord) bool, page func(token string) ([]*v2.Grant, string, error)) error {
	if err := r.reading(ctx); err != nil {
		return err
	}
	for row, err := range pages(page) {
		if err != nil {
			return err
		}
		if !yield(enginepkg.V2GrantToV3("", row)) {
			return nil
		}
	}
	return nil
}

func (r *reference) IterateGrants(ctx context.Context, yield func(*v3.GrantRecord) bool) error {
	return r.each(ctx, yield, func(token string) ([]*v2.Grant, string, error) {
		found, err := r.store.ListGrants(ctx, v2.GrantsServiceListGrantsRequest_builder{PageToken: token, PageSize: 7}.Build())
		return found.GetList(), found.GetNextPageToken(), err
	})
}

func (r *reference) IterateGrantsByEntitlement(ctx context.Context, entitlementID string, yield func(*v3.GrantRecord) bool) error {
	return r.each(ctx, yield, func(token string) ([]*v2.Grant, string, error) {
		found, err := r.store.ListGrantsForEntitlement(ctx, reader_v2.GrantsReaderServiceListGrantsForEntitlementRequest_builder{
			Entitlement: v2.Entitlement_builder{Id: entitlementID}.Build(), PageToken: token, PageSize: 7}.Build())
		return found.GetList(), found.GetNextPageToken(), err
	})
}

func (r *reference) IterateGrantsByPrincipal(ctx context.Context, principalRT, principalID string, yield func(*v3.GrantRecord) bool) error {
	return r.each(ctx, yield, func(token string) ([]*v2.Grant, string, error) {
		found, err := r.store.ListGrantsForPrincipal(ctx, reader_v2.GrantsReaderServiceListGrantsForPrincipalRequest_builder{
			PrincipalId: id(principalRT, principalID), PageToken: token, PageSize: 7}.Build())
		return found.GetList(), found.GetNextPageToken(), err
	})
}

func record(entitlement, kind, name string) *v3.GrantRecord {
	entitlement = "app:github:" + entitlement
	return v3.GrantRecord_builder{
		ExternalId:  entitlement + ":" + kind + ":" + name,
		Entitlement: v3.EntitlementRef_builder{ResourceTypeId: "app", ResourceId: "github", EntitlementId: entitlement}.Build(),
		Principal:   v3.PrincipalRef_builder{ResourceTypeId: kind, ResourceId: name}.Build(),
	}.Build()
}

// workloads are those of the SDK's own equivalence tests, and random ones.
func workloads() []equivalence.Workload {
	put := func(entitlement, kind, name string) equivalence.Op {
		return equivalence.Op{Kind: equivalence.OpPut, Record: record(entitlement, kind, name)}
	}
	mixed := equivalence.Workload{Name: "mixed-puts-deletes"}
	for i := range 200 {
		name := ksuid.New().String()
		if i%4 < 2 {
			name = fmt.Sprintf("shared-principal-%d", i%4+1)
		}
		mixed.Ops = append(mixed.Ops, put("ent-"+string(rune('A'+i%5)), "user", name))
	}
	for i := 0; i < 200; i += 8 {
		mixed.Ops = append(mixed.Ops, equivalence.Op{Kind: equivalence.OpDelete, DeleteExternalID: mixed.Ops[i].Record.GetExternalId()})
	}
	found := []equivalence.Workload{
		mixed,
		{Name: "empty"},
		{Name: "single-grant", Ops: []equivalence.Op{put("ent-1", "user", "alice")}},
		{Name: "overwrite", Ops: []equivalence.Op{put("ent-1", "user", "alice"), put("ent-1", "user", "bob")}},
	}
	for seed := range 20 {
		random := rand.New(rand.NewSource(int64(seed)))
		some := equivalence.Workload{Name: fmt.Sprintf("random-%d", seed)}
		for range 300 {
			op := put(fmt.Sprintf("ent:%d", random.Intn(6)), []string{"user", "group", "us:er"}[random.Intn(3)], fmt.Sprintf("p%d", random.Intn(20)))
			if random.Intn(3) == 0 {
				op = equivalence.Op{Kind: equivalence.OpDelete, DeleteExternalID: op.Record.GetExternalId()}
			}
			some.Ops = append(some.Ops, op)
		}
		found = append(found, some)
	}
	for i := range found {
		found[i].SyncID = ksuid.New().String()
	}
	return found
}

// The SDK's own runner finds no difference between its reference in memory and this engine, nor between Pebble and this engine.
func TestTheEquivalenceRunnerFindsNoDifference(t *testing.T) {
	ctx := t.Context()
	for _, workload := range workloads() {
		for _, saved := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/saved=%v", workload.Name, saved), func(t *testing.T) {
				require.NoError(t, equivalence.Compare(ctx, equivalence.NewMemoryRef(), newReference(t, saved), workload))
				pebble, err := enginepkg.Open(ctx, filepath.Join(t.TempDir(), "pebble"))
				require.NoError(t, err)
				defer pebble.Close()
				require.NoError(t, equivalence.Compare(ctx, pebble, newReference(t, saved), workload))
			})
		}
	}
	nothingLeft(t)
}

// The runner can find one.
func TestTheEquivalenceRunnerFindsADifference(t *testing.T) {
	workload := workloads()[0]
	less := workload
	// The third grant is put once.
	less.Ops = append(less.Ops[:2:2], less.Ops[3:]...)
	a, err := equivalence.RunWorkload(t.Context(), newReference(t, true), workload)
	require.NoError(t, err)
	b, err := equivalence.RunWorkload(t.Context(), newReference(t, true), less)
	require.NoError(t, err)
	require.Error(t, equivalence.Equal(a, b))
}
