package duramen

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/conductorone/baton-sdk/pkg/types/sessions"
	"google.golang.org/grpc/codes"
)

// sessionStore keeps what connectors remember between steps, in memory, by sync and key.
type sessionStore struct {
	mu     sync.RWMutex
	values map[[2]string][]byte
}

func bagOf(ctx context.Context, options []sessions.SessionStoreOption) (*sessions.SessionStoreBag, error) {
	bag := &sessions.SessionStoreBag{}
	for _, option := range options {
		if err := option(ctx, bag); err != nil {
			return nil, err
		}
	}
	if bag.SyncID == "" {
		return nil, &Error{codes.InvalidArgument, "a session needs the id of a sync"}
	}
	return bag, ctx.Err()
}

// Get gives a value, and whether there is one.
func (s *sessionStore) Get(ctx context.Context, key string, options ...sessions.SessionStoreOption) ([]byte, bool, error) {
	bag, err := bagOf(ctx, options)
	if err != nil {
		return nil, false, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	value, found := s.values[[2]string{bag.SyncID, bag.Prefix + key}]
	return slices.Clone(value), found, nil
}

// GetMany gives the values that there are, and the keys for which there was no room in the answer.
func (s *sessionStore) GetMany(ctx context.Context, keys []string, options ...sessions.SessionStoreOption) (map[string][]byte, []string, error) {
	bag, err := bagOf(ctx, options)
	if err != nil {
		return nil, nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	found, size := map[string][]byte{}, 0
	for i, key := range keys {
		value, ok := s.values[[2]string{bag.SyncID, bag.Prefix + key}]
		if !ok {
			continue
		}
		if size += len(key) + len(value) + 20; size > sessions.MaxSessionStoreSizeLimit && len(found) > 0 {
			return found, slices.Clone(keys[i:]), nil
		}
		found[key] = slices.Clone(value)
	}
	return found, nil, nil
}

// Set keeps a value.
func (s *sessionStore) Set(ctx context.Context, key string, value []byte, options ...sessions.SessionStoreOption) error {
	return s.SetMany(ctx, map[string][]byte{key: value}, options...)
}

// SetMany keeps values.
func (s *sessionStore) SetMany(ctx context.Context, values map[string][]byte, options ...sessions.SessionStoreOption) error {
	bag, err := bagOf(ctx, options)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.values == nil {
		s.values = map[[2]string][]byte{}
	}
	for key, value := range values {
		s.values[[2]string{bag.SyncID, bag.Prefix + key}] = slices.Clone(value)
	}
	return nil
}

// Delete forgets a value.
func (s *sessionStore) Delete(ctx context.Context, key string, options ...sessions.SessionStoreOption) error {
	bag, err := bagOf(ctx, options)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.values, [2]string{bag.SyncID, bag.Prefix + key})
	return nil
}

// Clear forgets all values with the prefix.
func (s *sessionStore) Clear(ctx context.Context, options ...sessions.SessionStoreOption) error {
	bag, err := bagOf(ctx, options)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.values, func(key [2]string, _ []byte) bool {
		return key[0] == bag.SyncID && strings.HasPrefix(key[1], bag.Prefix)
	})
	return nil
}

// GetAll gives values with the prefix, as many as an answer has room for, and a token for the others.
func (s *sessionStore) GetAll(ctx context.Context, pageToken string, options ...sessions.SessionStoreOption) (map[string][]byte, string, error) {
	bag, err := bagOf(ctx, options)
	if err != nil {
		return nil, "", err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	var keys []string
	for key := range s.values {
		if key[0] == bag.SyncID && strings.HasPrefix(key[1], bag.Prefix) && key[1] > pageToken {
			keys = append(keys, key[1])
		}
	}
	slices.Sort(keys)
	found, size, last := map[string][]byte{}, 0, ""
	for _, key := range keys {
		value := s.values[[2]string{bag.SyncID, key}]
		size += len(key) + len(value) + 20
		if len(found) == sessions.MaxKeysPerRequest || size > sessions.MaxSessionStoreSizeLimit && len(found) > 0 {
			return found, last, nil
		}
		found[strings.TrimPrefix(key, bag.Prefix)] = slices.Clone(value)
		last = key
	}
	return found, "", nil
}
