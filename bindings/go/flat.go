package duramen

import (
	"encoding/base64"
	"encoding/binary"

	"google.golang.org/grpc/codes"
)

// Rows and questions cross the boundary as flat bytes, as duramen.h says.

// kind is a kind of rows.
type kind uint32

const (
	resourceTypes kind = iota + 1
	resources
	entitlements
	grants
	assets
	expandedGrants
	edges
)

// scope says which rows are asked for.
type scope uint32

const (
	all scope = iota
	byID
	ofResourceType
	ofResource
	ofParent
	ofEntitlement
	ofPrincipal
	ofPrincipalType
	ofEdge
	needsExpansion
)

func appendNumber(out []byte, number int) []byte {
	return binary.LittleEndian.AppendUint32(out, uint32(number))
}

func appendText(out []byte, text string) []byte {
	return append(appendNumber(out, len(text)), text...)
}

func appendTexts(out []byte, texts ...string) []byte {
	for _, text := range texts {
		out = appendText(out, text)
	}
	return out
}

// question asks for the page behind a token.
func question(pageSize uint32, scope scope, pageToken string, texts ...string) ([]byte, error) {
	before, err := base64.RawURLEncoding.DecodeString(pageToken)
	if err != nil {
		return nil, &Error{codes.InvalidArgument, "this is not a page token; start again without one"}
	}
	out := appendNumber(make([]byte, 0, 64), int(pageSize))
	out = appendNumber(out, int(scope))
	out = appendText(out, string(before))
	return appendTexts(out, texts...), nil
}

// flat reads flat bytes. After an error it reads zeros.
type flat struct {
	bytes  []byte
	broken bool
}

func (f *flat) take(size int) []byte {
	if size > len(f.bytes) {
		f.bytes, f.broken = nil, true
		return nil
	}
	taken := f.bytes[:size]
	f.bytes = f.bytes[size:]
	return taken
}

func (f *flat) number() int {
	if taken := f.take(4); taken != nil {
		return int(binary.LittleEndian.Uint32(taken))
	}
	return 0
}

func (f *flat) signed() int64 {
	if taken := f.take(8); taken != nil {
		return int64(binary.LittleEndian.Uint64(taken))
	}
	return 0
}

func (f *flat) blob() []byte { return f.take(f.number()) }

func (f *flat) text() string { return string(f.blob()) }

func (f *flat) err() error {
	if f.broken {
		return &Error{codes.Internal, "the library gave what makes no sense: it and this package are of different versions"}
	}
	return nil
}

// pageOf splits a page into its count, its rows, and what stands behind them.
func pageOf(page []byte) (count int, rows, behind flat, err error) {
	reader := flat{bytes: page}
	count = reader.number()
	rows.bytes = reader.blob()
	return count, rows, flat{bytes: reader.bytes}, reader.err()
}

// token is the token of the next page, which stands at the end of a page.
func token(behind flat) string { return base64.RawURLEncoding.EncodeToString(behind.bytes) }
