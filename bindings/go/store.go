package duramen

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/conductorone/baton-sdk/pkg/annotations"
	"github.com/conductorone/baton-sdk/pkg/connectorstore"
	"github.com/conductorone/baton-sdk/pkg/dotc1z/c1zstore"
	"github.com/conductorone/baton-sdk/pkg/types/sessions"
	"github.com/grpc-ecosystem/go-grpc-middleware/logging/zap/ctxzap"
	"github.com/segmentio/ksuid"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"

	v2 "github.com/conductorone/baton-sdk/pb/c1/connector/v2"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// resumable is how long ago a sync may have been begun that is resumed without being named: as in the SDK's engines.
const resumable = 7 * 24 * time.Hour

// ErrNoCurrentSync is what writing needs a sync for that was started, resumed or set.
var ErrNoCurrentSync error = &Error{codes.FailedPrecondition, "no sync is open: start one, or resume one"}

// Store is a file that is open. Many goroutines may use it; their calls wait for each other.
type Store struct {
	graph    graph
	path     string
	readOnly bool
	sessions *sessionStore

	mu      sync.Mutex
	current string
	dirty   bool
	closed  bool
}

// run is what is known of the sync of the file; nil if there is none.
func (s *Store) run() (*c1zstore.SyncRun, error) {
	bytes, err := s.graph.sync()
	if err != nil || len(bytes) == 0 {
		return nil, err
	}
	f := flat{bytes: bytes}
	run := &c1zstore.SyncRun{ID: f.text(), Type: connectorstore.SyncType(f.text()), ParentSyncID: f.text(), SyncToken: f.text()}
	for _, at := range []**time.Time{&run.StartedAt, &run.EndedAt} {
		isKnown := f.number() != 0
		seconds, nanos := f.signed(), f.number()
		if isKnown {
			known := time.Unix(seconds, int64(nanos)).UTC()
			*at = &known
		}
	}
	run.SupportsDiff = f.number() != 0
	return run, f.err()
}

// finished is the sync of the file if it has ended and is of a type.
func (s *Store) finished(syncType connectorstore.SyncType) (*c1zstore.SyncRun, error) {
	run, err := s.run()
	if err != nil || run == nil || run.EndedAt == nil || syncType != connectorstore.SyncTypeAny && run.Type != syncType {
		return nil, err
	}
	return run, nil
}

// change does something that changes rows, or what is known of the sync.
func (s *Store) change(ctx context.Context, needsSync bool, do func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.readOnly {
		return &Error{codes.FailedPrecondition, fmt.Sprintf("%s was opened to be read only", s.path)}
	}
	if needsSync && s.current == "" {
		return ErrNoCurrentSync
	}
	// Also if it fails: a part of it may be done.
	s.dirty = true
	return do()
}

// StartNewSync begins a sync. The file holds one: rows of another are gone.
func (s *Store) StartNewSync(ctx context.Context, syncType connectorstore.SyncType, parentSyncID string) (string, error) {
	return s.StartNewSyncWithID(ctx, syncType, ksuid.New().String(), parentSyncID)
}

// StartNewSyncWithID begins a sync that has an id already, because it is copied from elsewhere.
func (s *Store) StartNewSyncWithID(ctx context.Context, syncType connectorstore.SyncType, syncID, parentSyncID string) (string, error) {
	if syncType == connectorstore.SyncTypeAny {
		syncType = connectorstore.SyncTypeFull
	}
	err := s.change(ctx, false, func() error {
		if err := s.graph.start(syncID, string(syncType), parentSyncID); err != nil {
			return err
		}
		s.current = syncID
		return nil
	})
	if err != nil {
		return "", err
	}
	return syncID, nil
}

// ResumeSync goes on with the sync of an id.
func (s *Store) ResumeSync(ctx context.Context, _ connectorstore.SyncType, syncID string) (string, error) {
	run, err := s.run()
	if err != nil {
		return "", err
	}
	if run == nil || syncID == "" || run.ID != syncID {
		return "", s.noSync(syncID)
	}
	return syncID, s.SetCurrentSync(ctx, syncID)
}

func (s *Store) noSync(syncID string) error {
	return &Error{codes.NotFound, fmt.Sprintf("%s has no sync %q", s.path, syncID)}
}

// StartOrResumeSync goes on with the sync of the id, or without one with a sync of the type that has not ended and was begun less
// than a week ago. Else it starts one, and says so.
func (s *Store) StartOrResumeSync(ctx context.Context, syncType connectorstore.SyncType, syncID string) (string, bool, error) {
	run, err := s.run()
	if err != nil {
		return "", false, err
	}
	if run != nil {
		isMeant := run.ID == syncID
		if syncID == "" {
			isMeant = run.EndedAt == nil && time.Since(*run.StartedAt) < resumable &&
				(syncType == connectorstore.SyncTypeAny || run.Type == syncType)
		}
		if isMeant {
			id, err := s.ResumeSync(ctx, syncType, run.ID)
			return id, false, err
		}
	}
	id, err := s.StartNewSync(ctx, syncType, "")
	return id, true, err
}

// SetCurrentSync makes a sync the one that is written.
func (s *Store) SetCurrentSync(_ context.Context, syncID string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = syncID
	return nil
}

// CurrentSyncStep is what the last checkpoint of the current sync said; nothing without one.
func (s *Store) CurrentSyncStep(context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	run, err := s.run()
	if err != nil || run == nil || s.current != run.ID {
		return "", err
	}
	return run.SyncToken, nil
}

// CheckpointSync notes where the syncing tool stands. It is in the file when Close returns, as all rows are.
func (s *Store) CheckpointSync(ctx context.Context, syncToken string) error {
	return s.change(ctx, true, func() error { return s.graph.checkpoint(syncToken) })
}

// EndSync ends the current sync.
func (s *Store) EndSync(ctx context.Context) error {
	return s.change(ctx, true, func() error {
		if err := s.graph.end(); err != nil {
			return err
		}
		s.current = ""
		return nil
	})
}

// Cleanup does nothing: the file holds one sync.
func (s *Store) Cleanup(context.Context) error { return nil }

// Close writes the file, if anything was changed, and gives all memory back. If that fails the store stays open, and what was
// there before is in the file. To close it again does nothing.
func (s *Store) Close(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	if s.dirty {
		run, err := s.run()
		if err != nil {
			return err
		}
		if run != nil {
			if err := s.saveAs(ctx, s.path); err != nil {
				return err
			}
		}
	}
	s.closed = true
	return s.graph.close()
}

// saveAs writes the sync into a file, and logs what that could not hold.
func (s *Store) saveAs(ctx context.Context, path string) error {
	losses, err := s.graph.save(path)
	if err == nil && losses != "" {
		ctxzap.Extract(ctx).Warn("the file could not hold all that was put", zap.String("path", path), zap.String("losses", losses))
	}
	return err
}

// Metadata says that the file is one of version 3, as the SDK's own engine writes by default.
func (s *Store) Metadata() connectorstore.StoreMetadata {
	return connectorstore.StoreMetadata{Engine: string(Engine), Format: "v3", PayloadEncoding: c1zstore.PayloadEncodingIndexedZstd.String()}
}

// SessionStore keeps what connectors remember between steps, in memory: it is gone when the store is closed.
func (s *Store) SessionStore() sessions.SessionStore { return s.sessions }

// Grants are the operations on grants that know of expansion.
func (s *Store) Grants() c1zstore.GrantStore { return grantStore{s} }

// SyncMeta is what is known of the sync.
func (s *Store) SyncMeta() c1zstore.SyncMeta { return syncMeta{s} }

// FileOps are the operations that make other files.
func (s *Store) FileOps() c1zstore.FileOps { return fileOps{s} }

// put puts messages, some at a time.
func put[T interface {
	comparable
	proto.Message
}](ctx context.Context, s *Store, kind kind, rows []T) error {
	return s.change(ctx, true, func() error {
		var none T
		var batch []byte
		for i, row := range rows {
			if row != none {
				start := len(batch)
				var err error
				batch, err = proto.MarshalOptions{}.MarshalAppend(append(batch, 0, 0, 0, 0), row)
				if err != nil {
					return err
				}
				appendNumber(batch[:start], len(batch)-start-4)
			}
			if len(batch) >= batchBytes || i == len(rows)-1 {
				if err := s.graph.put(kind, batch); err != nil {
					return err
				}
				batch = batch[:0]
			}
		}
		return nil
	})
}

// PutResourceTypes puts resource types; of several with one id the last stays, as with the other kinds of rows.
func (s *Store) PutResourceTypes(ctx context.Context, rows ...*v2.ResourceType) error {
	return put(ctx, s, resourceTypes, rows)
}

// PutResources puts resources.
func (s *Store) PutResources(ctx context.Context, rows ...*v2.Resource) error {
	return put(ctx, s, resources, rows)
}

// PutEntitlements puts entitlements. Two resources cannot have entitlements with the same id.
func (s *Store) PutEntitlements(ctx context.Context, rows ...*v2.Entitlement) error {
	return put(ctx, s, entitlements, rows)
}

// PutGrants puts grants. Of several of one entitlement to one principal the last stays.
func (s *Store) PutGrants(ctx context.Context, rows ...*v2.Grant) error {
	return s.putGrants(ctx, grants, rows)
}

func (s *Store) putGrants(ctx context.Context, kind kind, rows []*v2.Grant) error {
	return s.change(ctx, true, func() error {
		batch := make([]byte, 0, min(len(rows)*160, batchBytes+64<<10))
		var err error
		for i, row := range rows {
			if row != nil {
				if batch, err = appendGrant(batch, row); err != nil {
					return err
				}
			}
			if len(batch) >= batchBytes || i == len(rows)-1 {
				if err := s.graph.put(kind, batch); err != nil {
					return err
				}
				batch = batch[:0]
			}
		}
		return nil
	})
}

// PutAsset puts an asset.
func (s *Store) PutAsset(ctx context.Context, asset *v2.AssetRef, contentType string, data []byte) error {
	if asset.GetId() == "" {
		return &Error{codes.InvalidArgument, "an asset without an id cannot be kept"}
	}
	row := append(appendNumber(appendTexts(nil, asset.GetId(), contentType), len(data)), data...)
	return s.change(ctx, true, func() error { return s.graph.put(assets, row) })
}

// DeleteGrant deletes the grant of an id. If there is none, nothing happens.
func (s *Store) DeleteGrant(ctx context.Context, grantID string) error {
	return s.change(ctx, true, func() error { return s.graph.delete(grants, appendText(nil, grantID)) })
}

// DeleteGrantByRefs deletes the grant of the entitlement and the principal that a grant names.
func (s *Store) DeleteGrantByRefs(ctx context.Context, grant *v2.Grant) error {
	return s.DeleteGrantsByRefs(ctx, grant)
}

// DeleteGrantsByRefs deletes many grants at once; see DeleteGrantByRefs.
func (s *Store) DeleteGrantsByRefs(ctx context.Context, rows ...*v2.Grant) error {
	var names []byte
	for _, row := range rows {
		resource, principal := row.GetEntitlement().GetResource().GetId(), row.GetPrincipal().GetId()
		names = appendTexts(names, resource.GetResourceType(), resource.GetResource(), row.GetEntitlement().GetId(),
			principal.GetResourceType(), principal.GetResource())
	}
	return s.change(ctx, true, func() error { return s.graph.delete(edges, names) })
}

// DeleteResourceRecord deletes a resource. Its entitlements and grants stay.
func (s *Store) DeleteResourceRecord(ctx context.Context, resourceTypeID, resourceID string) error {
	return s.change(ctx, true, func() error { return s.graph.delete(resources, appendTexts(nil, resourceTypeID, resourceID)) })
}

// DeleteEntitlementByRefs deletes an entitlement of a resource. Its grants stay.
func (s *Store) DeleteEntitlementByRefs(ctx context.Context, entitlement *v2.Entitlement) error {
	id := entitlement.GetResource().GetId()
	names := appendTexts(nil, id.GetResourceType(), id.GetResource(), entitlement.GetId())
	return s.change(ctx, true, func() error { return s.graph.delete(entitlements, names) })
}

// expects refuses to read another sync than that of the file.
func (s *Store) expects(notes []*anypb.Any, syncID string) error {
	noted, err := annotations.GetSyncIdFromAnnotations(notes)
	if err != nil {
		return &Error{codes.InvalidArgument, err.Error()}
	}
	run, err := s.run()
	if err != nil {
		return err
	}
	if run == nil {
		return ErrNoCurrentSync
	}
	for _, id := range []string{noted, syncID} {
		if id != "" && id != run.ID {
			return s.noSync(id)
		}
	}
	return nil
}
