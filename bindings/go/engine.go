// Package duramen is an engine for the ecosystem's SDK (baton-sdk) that keeps syncs with Duramen's library instead of Pebble:
// the same files of version 3, for a fraction of the processor time.
//
//	err := duramen.Register()
//	store, err := dotc1z.NewStore(ctx, "sync.c1z", dotc1z.WithEngine(duramen.Engine)) // a file that is not there yet
//	store, err := duramen.Open(ctx, "sync.c1z", dotc1z.StoreOptions{ReadOnly: true})  // any file
//
// The SDK decides by the contents of a file that is there which of its engines opens it, and files of this engine say that
// Pebble can open them, which is true. So files that are there are opened with [Open], and given to the SDK's syncer with
// sync.WithConnectorStore.
//
// A store holds the rows of one sync in memory, some 50 bytes for a plain grant, unless it only lists grants of a file of version
// 3, which are read from the file page by page. What is put is in the file when Close returns, and not before.
//
// Grants that are listed together share memory, 32 at a time, and those of one entitlement share its message: who keeps one grant of
// many, or changes what its entitlement says, clones it first.
package duramen

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"github.com/conductorone/baton-sdk/pkg/connectorstore"
	"github.com/conductorone/baton-sdk/pkg/dotc1z"
	"github.com/conductorone/baton-sdk/pkg/dotc1z/c1zstore"
)

// Engine is the name by which the SDK knows this engine, once it is registered.
const Engine c1zstore.Engine = "duramen"

var register = sync.OnceValue(func() error { return dotc1z.RegisterEngine(driver{}) })

// Register makes the engine known to the SDK. To call it again does nothing.
func Register() error { return register() }

// driver opens stores for the SDK.
type driver struct{}

func (driver) Engine() c1zstore.Engine  { return Engine }
func (driver) Format() dotc1z.C1ZFormat { return dotc1z.C1ZFormatV3 }

func (driver) OpenStore(ctx context.Context, path string, options dotc1z.StoreOptions) (c1zstore.Store, error) {
	return Open(ctx, path, options)
}

// Open opens a file: a .c1z file of either version, or a pack of Duramen, of which the sync is read that is read by default. If
// there is no file, or an empty one, and the store is not read-only, it begins one. Whatever the file was, Close writes a .c1z
// file of version 3 if anything was changed.
//
// Of the options ReadOnly and MaxDecodedPayloadBytes count; the others are those of other engines.
func Open(ctx context.Context, path string, options dotc1z.StoreOptions) (*Store, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if path == "" {
		return nil, errors.New("duramen: a store needs the path of a file")
	}
	from := path
	switch file, err := os.Stat(path); {
	case err == nil && file.Size() > 0:
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case options.ReadOnly:
		return nil, fmt.Errorf("duramen: %s does not exist, or is empty, and is opened to be read only", path)
	default:
		from = ""
	}
	opened, err := openGraph(from, options.MaxDecodedPayloadBytes)
	if err != nil {
		return nil, err
	}
	store := &Store{graph: opened, path: path, readOnly: options.ReadOnly, sessions: &sessionStore{}}
	run, err := store.run()
	if err != nil {
		return nil, errors.Join(err, opened.close())
	}
	if run != nil {
		store.current = run.ID
	}
	return store, nil
}

var (
	_ c1zstore.Store                             = (*Store)(nil)
	_ connectorstore.Writer                      = (*Store)(nil)
	_ dotc1z.EngineDriver                        = driver{}
	_ connectorstore.LatestFinishedSyncIDFetcher = (*Store)(nil)
)
