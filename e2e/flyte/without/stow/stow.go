// Package stow has what Flyte's storage library asks of object stores, and no store: the MPI plugin
// reads and writes none. The real module brings the clients of three clouds, which would take longer
// to fetch and to compile than all the rest.
package stow

import (
	"context"
	"errors"
	"io"
	"net/url"
	"time"
)

const CursorStart = ""

var ErrNotFound = errors.New("not found")

type (
	ClientMethod int
	ConfigMap    map[string]string
)

type PresignRequestParams struct {
	ExpiresIn             time.Duration
	ContentMD5            string
	AddContentMD5Metadata bool
	ExtraParams           map[string]interface{}
}

type PresignResponse struct {
	Url                    string
	RequiredRequestHeaders map[string]string
}

type Location interface {
	CreateContainer(name string) (Container, error)
	Container(id string) (Container, error)
}

type Container interface {
	Name() string
	Item(id string) (Item, error)
	Items(prefix, cursor string, count int) ([]Item, string, error)
	Put(name string, r io.Reader, size int64, metadata map[string]interface{}) (Item, error)
	PreSignRequest(context.Context, ClientMethod, string, PresignRequestParams) (PresignResponse, error)
	RemoveItem(id string) error
}

type Item interface {
	ETag() (string, error)
	Metadata() (map[string]interface{}, error)
	Open() (io.ReadCloser, error)
	Size() (int64, error)
	URL() *url.URL
}

func Dial(kind string, _ interface{}) (Location, error) {
	return nil, errors.New("there is no store of kind " + kind + " here")
}

func IsCursorEnd(cursor string) bool { return cursor == "" }

