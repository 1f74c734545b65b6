package duramen

import (
	"context"
	"fmt"
	"os"

	reader_v2 "github.com/conductorone/baton-sdk/pb/c1/reader/v2"
	"github.com/conductorone/baton-sdk/pkg/connectorstore"
	"github.com/conductorone/baton-sdk/pkg/dotc1z/c1zstore"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// syncMeta is what is known of the sync.
type syncMeta struct{ store *Store }

// MarkSyncSupportsDiff says that diffs can be made against the sync.
func (m syncMeta) MarkSyncSupportsDiff(ctx context.Context, syncID string) error {
	if err := m.store.expects(nil, syncID); err != nil {
		return err
	}
	return m.store.change(ctx, false, m.store.graph.supportsDiff)
}

// LatestFullSync is the sync if it is a full one that has ended; else nil.
func (m syncMeta) LatestFullSync(context.Context) (*c1zstore.SyncRun, error) {
	return m.store.finished(connectorstore.SyncTypeFull)
}

// LatestFinishedSyncOfAnyType is the sync if it has ended; else nil.
func (m syncMeta) LatestFinishedSyncOfAnyType(context.Context) (*c1zstore.SyncRun, error) {
	return m.store.finished(connectorstore.SyncTypeAny)
}

// Stats says how many rows there are of each kind, and how many resources of each type.
func (m syncMeta) Stats(ctx context.Context, syncType connectorstore.SyncType, syncID string) (map[string]int64, error) {
	stats, err := m.StatsV2(ctx, syncType, syncID)
	if err != nil {
		return nil, err
	}
	found := map[string]int64{
		"resource_types": stats.GetResourceTypes(),
		"resources":      stats.GetResources(),
		"entitlements":   stats.GetEntitlements(),
		"grants":         stats.GetGrants(),
		"assets":         stats.GetAssets(),
	}
	for kind, count := range stats.GetResourcesByResourceType() {
		found[kind] = count
	}
	return found, nil
}

// StatsV2 says how many rows there are. Without an id the sync has to have ended, and to be of the type.
func (m syncMeta) StatsV2(_ context.Context, syncType connectorstore.SyncType, syncID string) (*reader_v2.SyncStats, error) {
	run, err := m.store.run()
	switch {
	case err != nil:
		return nil, err
	case syncID == "" && (run == nil || run.EndedAt == nil || syncType != connectorstore.SyncTypeAny && run.Type != syncType):
		return nil, &Error{codes.NotFound, fmt.Sprintf("%s has no sync of the type %q that has ended", m.store.path, syncType)}
	case run == nil, syncID != "" && run.ID != syncID:
		return nil, m.store.noSync(syncID)
	case syncType != connectorstore.SyncTypeAny && run.Type != syncType:
		return nil, &Error{codes.InvalidArgument, fmt.Sprintf("the sync %q is of the type %q, not %q", syncID, run.Type, syncType)}
	}
	return m.store.stats()
}

// RecalculateStats does nothing: rows are counted when they are asked for.
func (m syncMeta) RecalculateStats(_ context.Context, syncID string) error {
	return m.store.expects(nil, syncID)
}

func (s *Store) stats() (*reader_v2.SyncStats, error) {
	bytes, err := s.graph.count()
	if err != nil {
		return nil, err
	}
	f := flat{bytes: bytes}
	count := func() int64 { return int64(f.number()) }
	stats := reader_v2.SyncStats_builder{
		ResourceTypes: count(), Resources: count(), Entitlements: count(), Grants: count(), Assets: count(),
		ResourcesByResourceType:    map[string]int64{},
		EntitlementsByResourceType: map[string]int64{},
		GrantsByResourceType:       map[string]int64{},
	}
	for len(f.bytes) > 0 {
		kind := f.text()
		for _, counts := range []map[string]int64{
			stats.ResourcesByResourceType, stats.EntitlementsByResourceType, stats.GrantsByResourceType,
		} {
			if of := count(); of > 0 {
				counts[kind] = of
			}
		}
	}
	return stats.Build(), f.err()
}

// message is the sync as the reader's interface has it.
func (s *Store) message(run *c1zstore.SyncRun) (*reader_v2.SyncRun, error) {
	stats, err := s.stats()
	if err != nil {
		return nil, err
	}
	found := reader_v2.SyncRun_builder{
		Id: run.ID, StartedAt: timestamppb.New(*run.StartedAt), SyncToken: run.SyncToken,
		SyncType: string(run.Type), ParentSyncId: run.ParentSyncID, Stats: stats,
	}
	if run.EndedAt != nil {
		found.EndedAt = timestamppb.New(*run.EndedAt)
	}
	return found.Build(), nil
}

// GetSync gives the sync by its id.
func (s *Store) GetSync(_ context.Context, req *reader_v2.SyncsReaderServiceGetSyncRequest) (*reader_v2.SyncsReaderServiceGetSyncResponse, error) {
	run, err := s.run()
	if err != nil {
		return nil, err
	}
	if run == nil || run.ID != req.GetSyncId() {
		return nil, s.noSync(req.GetSyncId())
	}
	found, err := s.message(run)
	if err != nil {
		return nil, err
	}
	return reader_v2.SyncsReaderServiceGetSyncResponse_builder{Sync: found}.Build(), nil
}

// ListSyncs lists the sync.
func (s *Store) ListSyncs(context.Context, *reader_v2.SyncsReaderServiceListSyncsRequest) (*reader_v2.SyncsReaderServiceListSyncsResponse, error) {
	run, err := s.run()
	if err != nil {
		return nil, err
	}
	var found []*reader_v2.SyncRun
	if run != nil {
		one, err := s.message(run)
		if err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	return reader_v2.SyncsReaderServiceListSyncsResponse_builder{Syncs: found}.Build(), nil
}

// GetLatestFinishedSync gives the sync if it has ended and is of the type.
func (s *Store) GetLatestFinishedSync(_ context.Context, req *reader_v2.SyncsReaderServiceGetLatestFinishedSyncRequest) (*reader_v2.SyncsReaderServiceGetLatestFinishedSyncResponse, error) {
	run, err := s.finished(connectorstore.SyncType(req.GetSyncType()))
	if err != nil || run == nil {
		return reader_v2.SyncsReaderServiceGetLatestFinishedSyncResponse_builder{}.Build(), err
	}
	found, err := s.message(run)
	if err != nil {
		return nil, err
	}
	return reader_v2.SyncsReaderServiceGetLatestFinishedSyncResponse_builder{Sync: found}.Build(), nil
}

// LatestFinishedSyncID is the id of the sync if it has ended and is of the type; else empty.
func (s *Store) LatestFinishedSyncID(_ context.Context, syncType connectorstore.SyncType) (string, error) {
	run, err := s.finished(syncType)
	if err != nil || run == nil {
		return "", err
	}
	return run.ID, nil
}

// Stats is that of SyncMeta, for those who ask the store itself.
func (s *Store) Stats(ctx context.Context, syncType connectorstore.SyncType, syncID string) (map[string]int64, error) {
	return syncMeta{s}.Stats(ctx, syncType, syncID)
}

// fileOps are the operations that make other files.
type fileOps struct{ store *Store }

// CloneSync writes the sync, which has to have ended, into a file of its own, which must not be there yet.
func (f fileOps) CloneSync(ctx context.Context, outPath string, syncID string, _ ...c1zstore.CloneSyncOption) error {
	if err := f.store.expects(nil, syncID); err != nil {
		return err
	}
	run, err := f.store.run()
	if err != nil {
		return err
	}
	if run.EndedAt == nil {
		return &Error{codes.FailedPrecondition, fmt.Sprintf("the sync %q has not ended", run.ID)}
	}
	if _, err := os.Lstat(outPath); err == nil {
		return &Error{codes.AlreadyExists, fmt.Sprintf("%s is there already", outPath)}
	}
	return f.store.saveAs(ctx, outPath)
}

// CopyIsolateSync is CloneSync: a file holds one sync.
func (f fileOps) CopyIsolateSync(ctx context.Context, outPath string, syncID string, options ...c1zstore.CloneSyncOption) error {
	return f.CloneSync(ctx, outPath, syncID, options...)
}

// GenerateSyncDiff is refused, as by the SDK's Pebble engine.
func (f fileOps) GenerateSyncDiff(context.Context, string, string) (string, error) {
	return "", &Error{codes.Unimplemented, "a file holds one sync, so that there is nothing to compare in it; `duramen pack diff` compares two files"}
}
