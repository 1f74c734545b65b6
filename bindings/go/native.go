package duramen

/*
#cgo CFLAGS: -I${SRCDIR}/../c/include
#cgo LDFLAGS: -l:libduramen_c.a -lm -ldl -lpthread
#cgo noescape duramen_open
#cgo nocallback duramen_open
#cgo noescape duramen_start
#cgo nocallback duramen_start
#cgo noescape duramen_checkpoint
#cgo nocallback duramen_checkpoint
#cgo noescape duramen_put
#cgo nocallback duramen_put
#cgo noescape duramen_delete
#cgo nocallback duramen_delete
#cgo noescape duramen_list
#cgo nocallback duramen_list
#cgo noescape duramen_save
#cgo nocallback duramen_save
#include <duramen.h>
*/
import "C"

import (
	"fmt"
	"unsafe"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// This file is the only one that calls the library. Memory of Go is given for the time of a call, and no memory of the library
// outlives the function that asked for it: what is kept is copied, and the rest is freed here.

// graph is the number of a graph in the library.
type graph C.uint64_t

// Error is what the library says of a call that failed. It carries a gRPC status, as errors of the SDK's own engines do.
type Error struct {
	code codes.Code
	text string
}

func (e *Error) Error() string { return "duramen: " + e.text }

// GRPCStatus makes status.Code find the code.
func (e *Error) GRPCStatus() *status.Status { return status.New(e.code, e.Error()) }

func taken(bytes C.duramen_bytes) []byte {
	defer C.duramen_bytes_free(bytes)
	return append([]byte(nil), view(bytes)...)
}

// view is the memory of the library as it lies there, until it is freed.
func view(bytes C.duramen_bytes) []byte {
	return unsafe.Slice((*byte)(bytes.data), int(bytes.len))
}

// failed makes an error of what a call returned, and frees its text.
func failed(returned C.int32_t, text C.duramen_bytes) error {
	if returned == C.DURAMEN_OK {
		return nil
	}
	code := codes.Internal
	switch returned {
	case C.DURAMEN_INVALID:
		code = codes.InvalidArgument
	case C.DURAMEN_NOT_FOUND:
		code = codes.NotFound
	case C.DURAMEN_FAILED:
		code = codes.DataLoss
	case C.DURAMEN_NO_GRAPH:
		code = codes.FailedPrecondition
	}
	return &Error{code, string(taken(text))}
}

func pointer(bytes []byte) (*C.uint8_t, C.size_t) {
	return (*C.uint8_t)(unsafe.SliceData(bytes)), C.size_t(len(bytes))
}

func pointerOf(text string) (*C.uint8_t, C.size_t) {
	return (*C.uint8_t)(unsafe.StringData(text)), C.size_t(len(text))
}

func openGraph(path string, maxDecodedBytes uint64) (graph, error) {
	var opened C.uint64_t
	var text C.duramen_bytes
	data, size := pointerOf(path)
	returned := C.duramen_open(data, size, C.uint64_t(maxDecodedBytes), &opened, &text)
	return graph(opened), failed(returned, text)
}

func (g graph) close() error {
	var text C.duramen_bytes
	return failed(C.duramen_close(C.uint64_t(g), &text), text)
}

func (g graph) start(id, kind, parent string) error {
	var text C.duramen_bytes
	idData, idSize := pointerOf(id)
	kindData, kindSize := pointerOf(kind)
	parentData, parentSize := pointerOf(parent)
	returned := C.duramen_start(C.uint64_t(g), idData, idSize, kindData, kindSize, parentData, parentSize, &text)
	return failed(returned, text)
}

func (g graph) checkpoint(token string) error {
	var text C.duramen_bytes
	data, size := pointerOf(token)
	return failed(C.duramen_checkpoint(C.uint64_t(g), data, size, &text), text)
}

func (g graph) end() error {
	var text C.duramen_bytes
	return failed(C.duramen_end(C.uint64_t(g), &text), text)
}

func (g graph) supportsDiff() error {
	var text C.duramen_bytes
	return failed(C.duramen_supports_diff(C.uint64_t(g), &text), text)
}

func (g graph) sync() ([]byte, error) {
	var found, text C.duramen_bytes
	if err := failed(C.duramen_sync(C.uint64_t(g), &found, &text), text); err != nil {
		return nil, err
	}
	return taken(found), nil
}

func (g graph) count() ([]byte, error) {
	var found, text C.duramen_bytes
	if err := failed(C.duramen_count(C.uint64_t(g), &found, &text), text); err != nil {
		return nil, err
	}
	return taken(found), nil
}

func (g graph) put(kind kind, rows []byte) error {
	var text C.duramen_bytes
	data, size := pointer(rows)
	return failed(C.duramen_put(C.uint64_t(g), C.uint32_t(kind), data, size, &text), text)
}

func (g graph) delete(kind kind, names []byte) error {
	var text C.duramen_bytes
	data, size := pointer(names)
	return failed(C.duramen_delete(C.uint64_t(g), C.uint32_t(kind), data, size, &text), text)
}

// list asks for a page, and lets read read it where it lies: what read keeps, it has to copy.
func (g graph) list(kind kind, question []byte, read func(page []byte) error) error {
	var page, text C.duramen_bytes
	data, size := pointer(question)
	if err := failed(C.duramen_list(C.uint64_t(g), C.uint32_t(kind), data, size, &page, &text), text); err != nil {
		return err
	}
	defer C.duramen_bytes_free(page)
	return read(view(page))
}

func (g graph) save(path string) (losses string, err error) {
	var found, text C.duramen_bytes
	data, size := pointerOf(path)
	if err := failed(C.duramen_save(C.uint64_t(g), data, size, &found, &text), text); err != nil {
		return "", err
	}
	return string(taken(found)), nil
}

// live says how many graphs are open in the library, and how many pieces of its memory are not freed.
func live() (graphs, pieces int) {
	var g, p C.size_t
	C.duramen_live(&g, &p)
	return int(g), int(p)
}

func init() {
	if version := C.duramen_version(); version != 1 {
		panic(fmt.Sprintf("duramen: the library has version %d of its interface, and this package needs version 1", version))
	}
}
