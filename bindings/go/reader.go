package duramen

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"hash/crc32"
	"io"
	"strings"

	v2 "github.com/conductorone/baton-sdk/pb/c1/connector/v2"
	reader_v2 "github.com/conductorone/baton-sdk/pb/c1/reader/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// request is what all requests for rows have.
type request interface {
	GetAnnotations() []*anypb.Any
}

// ready refuses a request that comes too late, or means another sync.
func (s *Store) ready(ctx context.Context, req request) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	active := ""
	if named, ok := req.(interface{ GetActiveSyncId() string }); ok {
		active = named.GetActiveSyncId()
	}
	return s.expects(req.GetAnnotations(), active)
}

// messages gives the rows of a page, each of which is a message.
func messages[M any, T interface {
	*M
	proto.Message
}](s *Store, kind kind, pageSize uint32, scope scope, after string, texts ...string) (rows []T, next string, err error) {
	question, err := question(pageSize, scope, after, texts...)
	if err != nil {
		return nil, "", err
	}
	err = s.graph.list(kind, question, func(page []byte) error {
		count, reader, behind, err := pageOf(page)
		if err != nil {
			return err
		}
		next = token(behind)
		rows = make([]T, count)
		for i := range rows {
			rows[i] = new(M)
			if err := proto.Unmarshal(reader.blob(), rows[i]); err != nil {
				return err
			}
		}
		return reader.err()
	})
	return rows, next, err
}

// listGrants gives the grants of a page; see readGrants for pending.
func (s *Store) listGrants(pageSize uint32, scope scope, after string, pending func(bool), texts ...string) (rows []*v2.Grant, next string, err error) {
	question, err := question(pageSize, scope, after, texts...)
	if err != nil {
		return nil, "", err
	}
	err = s.graph.list(grants, question, func(page []byte) error {
		count, texts, behind, err := pageOf(page)
		if err != nil {
			return err
		}
		heads := flat{bytes: behind.take(count * grantHead)}
		if err := behind.err(); err != nil {
			return err
		}
		next = token(behind)
		rows, err = readGrants(count, texts, heads, pending)
		return err
	})
	return rows, next, err
}

// only is the one row that was asked for.
func only[T any](rows []T, err error, what string, id ...string) (T, error) {
	if err == nil && len(rows) == 0 {
		err = &Error{codes.NotFound, fmt.Sprintf("there is no %s %q", what, strings.Join(id, ":"))}
	}
	if err != nil {
		var none T
		return none, err
	}
	return rows[0], nil
}

// ListResourceTypes lists resource types.
func (s *Store) ListResourceTypes(ctx context.Context, req *v2.ResourceTypesServiceListResourceTypesRequest) (*v2.ResourceTypesServiceListResourceTypesResponse, error) {
	if err := s.ready(ctx, req); err != nil {
		return nil, err
	}
	rows, next, err := messages[v2.ResourceType](s, resourceTypes, req.GetPageSize(), all, req.GetPageToken())
	if err != nil {
		return nil, err
	}
	return v2.ResourceTypesServiceListResourceTypesResponse_builder{List: rows, NextPageToken: next}.Build(), nil
}

// GetResourceType gives a resource type by its id.
func (s *Store) GetResourceType(ctx context.Context, req *reader_v2.ResourceTypesReaderServiceGetResourceTypeRequest) (*reader_v2.ResourceTypesReaderServiceGetResourceTypeResponse, error) {
	if err := s.ready(ctx, req); err != nil {
		return nil, err
	}
	rows, _, err := messages[v2.ResourceType](s, resourceTypes, 0, byID, "", req.GetResourceTypeId())
	row, err := only(rows, err, "resource type", req.GetResourceTypeId())
	if err != nil {
		return nil, err
	}
	return reader_v2.ResourceTypesReaderServiceGetResourceTypeResponse_builder{ResourceType: row}.Build(), nil
}

// ListResources lists resources: all, or those of a parent, of a type, or both.
func (s *Store) ListResources(ctx context.Context, req *v2.ResourcesServiceListResourcesRequest) (*v2.ResourcesServiceListResourcesResponse, error) {
	if err := s.ready(ctx, req); err != nil {
		return nil, err
	}
	scope, texts := all, []string(nil)
	if parent := req.GetParentResourceId(); parent.GetResource() != "" {
		scope, texts = ofParent, []string{parent.GetResourceType(), parent.GetResource()}
	}
	if of := req.GetResourceTypeId(); of != "" {
		texts = append(texts, of)
		if scope == all {
			scope = ofResourceType
		}
	}
	rows, next, err := messages[v2.Resource](s, resources, req.GetPageSize(), scope, req.GetPageToken(), texts...)
	if err != nil {
		return nil, err
	}
	return v2.ResourcesServiceListResourcesResponse_builder{List: rows, NextPageToken: next}.Build(), nil
}

// GetResource gives a resource by its id.
func (s *Store) GetResource(ctx context.Context, req *reader_v2.ResourcesReaderServiceGetResourceRequest) (*reader_v2.ResourcesReaderServiceGetResourceResponse, error) {
	if err := s.ready(ctx, req); err != nil {
		return nil, err
	}
	id := req.GetResourceId()
	rows, _, err := messages[v2.Resource](s, resources, 0, byID, "", id.GetResourceType(), id.GetResource())
	row, err := only(rows, err, "resource", id.GetResourceType(), id.GetResource())
	if err != nil {
		return nil, err
	}
	return reader_v2.ResourcesReaderServiceGetResourceResponse_builder{Resource: row}.Build(), nil
}

// ListResourcesByIds gives several resources by their ids; what is not there is left out.
func (s *Store) ListResourcesByIds(ctx context.Context, req *reader_v2.ResourcesReaderServiceListResourcesByIdsRequest) (*reader_v2.ResourcesReaderServiceListResourcesByIdsResponse, error) {
	if err := s.ready(ctx, req); err != nil {
		return nil, err
	}
	var names []string
	for _, id := range req.GetResourceIds() {
		names = append(names, id.GetResourceType(), id.GetResource())
	}
	rows, _, err := messages[v2.Resource](s, resources, 0, byID, "", names...)
	if err != nil {
		return nil, err
	}
	return reader_v2.ResourcesReaderServiceListResourcesByIdsResponse_builder{List: rows}.Build(), nil
}

// ListEntitlements lists entitlements: all, or those of a resource.
func (s *Store) ListEntitlements(ctx context.Context, req *v2.EntitlementsServiceListEntitlementsRequest) (*v2.EntitlementsServiceListEntitlementsResponse, error) {
	if err := s.ready(ctx, req); err != nil {
		return nil, err
	}
	scope, texts := ofResourceOrAll(req.GetResource())
	rows, next, err := messages[v2.Entitlement](s, entitlements, req.GetPageSize(), scope, req.GetPageToken(), texts...)
	if err != nil {
		return nil, err
	}
	return v2.EntitlementsServiceListEntitlementsResponse_builder{List: rows, NextPageToken: next}.Build(), nil
}

func ofResourceOrAll(resource *v2.Resource) (scope, []string) {
	if id := resource.GetId(); id != nil {
		return ofResource, []string{id.GetResourceType(), id.GetResource()}
	}
	return all, nil
}

// ListStaticEntitlements lists nothing: files hold none, as with the SDK's own engines.
func (s *Store) ListStaticEntitlements(context.Context, *v2.EntitlementsServiceListStaticEntitlementsRequest) (*v2.EntitlementsServiceListStaticEntitlementsResponse, error) {
	return v2.EntitlementsServiceListStaticEntitlementsResponse_builder{List: []*v2.Entitlement{}}.Build(), nil
}

// GetEntitlement gives an entitlement by its id.
func (s *Store) GetEntitlement(ctx context.Context, req *reader_v2.EntitlementsReaderServiceGetEntitlementRequest) (*reader_v2.EntitlementsReaderServiceGetEntitlementResponse, error) {
	if err := s.ready(ctx, req); err != nil {
		return nil, err
	}
	rows, _, err := messages[v2.Entitlement](s, entitlements, 0, byID, "", req.GetEntitlementId())
	row, err := only(rows, err, "entitlement", req.GetEntitlementId())
	if err != nil {
		return nil, err
	}
	return reader_v2.EntitlementsReaderServiceGetEntitlementResponse_builder{Entitlement: row}.Build(), nil
}

// ListEntitlementsByIds gives several entitlements by their ids; what is not there is left out.
func (s *Store) ListEntitlementsByIds(ctx context.Context, req *reader_v2.EntitlementsReaderServiceListEntitlementsByIdsRequest) (*reader_v2.EntitlementsReaderServiceListEntitlementsByIdsResponse, error) {
	if err := s.ready(ctx, req); err != nil {
		return nil, err
	}
	rows, _, err := messages[v2.Entitlement](s, entitlements, 0, byID, "", req.GetEntitlementIds()...)
	if err != nil {
		return nil, err
	}
	return reader_v2.EntitlementsReaderServiceListEntitlementsByIdsResponse_builder{List: rows}.Build(), nil
}

// ListGrants lists grants: all, or those of the entitlements of a resource.
func (s *Store) ListGrants(ctx context.Context, req *v2.GrantsServiceListGrantsRequest) (*v2.GrantsServiceListGrantsResponse, error) {
	if err := s.ready(ctx, req); err != nil {
		return nil, err
	}
	scope, texts := ofResourceOrAll(req.GetResource())
	rows, next, err := s.listGrants(req.GetPageSize(), scope, req.GetPageToken(), nil, texts...)
	if err != nil {
		return nil, err
	}
	return v2.GrantsServiceListGrantsResponse_builder{List: rows, NextPageToken: next}.Build(), nil
}

// GetGrant gives a grant by its id.
func (s *Store) GetGrant(ctx context.Context, req *reader_v2.GrantsReaderServiceGetGrantRequest) (*reader_v2.GrantsReaderServiceGetGrantResponse, error) {
	if err := s.ready(ctx, req); err != nil {
		return nil, err
	}
	rows, _, err := s.listGrants(0, byID, "", nil, req.GetGrantId())
	row, err := only(rows, err, "grant", req.GetGrantId())
	if err != nil {
		return nil, err
	}
	return reader_v2.GrantsReaderServiceGetGrantResponse_builder{Grant: row}.Build(), nil
}

// names are the texts that name an entitlement. It may be named by its id alone if that is of one resource only.
func names(entitlement *v2.Entitlement) ([]string, error) {
	if entitlement.GetId() == "" {
		return nil, &Error{codes.InvalidArgument, "an entitlement has to be named by its id"}
	}
	id := entitlement.GetResource().GetId()
	return []string{id.GetResourceType(), id.GetResource(), entitlement.GetId()}, nil
}

// GrantsForEntitlementPrincipalSorted says that grants of an entitlement are listed by principal.
func (s *Store) GrantsForEntitlementPrincipalSorted() bool { return true }

// ListGrantsForEntitlement lists the grants of an entitlement: all, or those to a principal, or to principals of some types.
func (s *Store) ListGrantsForEntitlement(ctx context.Context, req *reader_v2.GrantsReaderServiceListGrantsForEntitlementRequest) (*reader_v2.GrantsReaderServiceListGrantsForEntitlementResponse, error) {
	if err := s.ready(ctx, req); err != nil {
		return nil, err
	}
	texts, err := names(req.GetEntitlement())
	if err != nil {
		return nil, err
	}
	scope := ofEntitlement
	if principal := req.GetPrincipalId(); principal != nil { //nolint:staticcheck // deprecated, and still asked
		scope, texts = ofEdge, append(texts, principal.GetResourceType(), principal.GetResource())
	}
	texts = append(texts, req.GetPrincipalResourceTypeIds()...) //nolint:staticcheck // deprecated, and still asked
	rows, next, err := s.listGrants(req.GetPageSize(), scope, req.GetPageToken(), nil, texts...)
	if err != nil {
		return nil, err
	}
	return reader_v2.GrantsReaderServiceListGrantsForEntitlementResponse_builder{List: rows, NextPageToken: next}.Build(), nil
}

// ListGrantsForEntitlements lists the grants of several entitlements, one after another.
func (s *Store) ListGrantsForEntitlements(ctx context.Context, req *reader_v2.GrantsReaderServiceListGrantsForEntitlementsRequest) (*reader_v2.GrantsReaderServiceListGrantsForEntitlementsResponse, error) {
	if err := s.ready(ctx, req); err != nil {
		return nil, err
	}
	asked := req.GetEntitlements()
	at, inner, err := s.placeAmong(asked, req.GetPageToken())
	if err != nil {
		return nil, err
	}
	size := int(req.GetPageSize())
	if size == 0 || size > pageRows {
		size = pageRows
	}
	var rows []*v2.Grant
	next := ""
	for at < len(asked) && next == "" {
		texts, err := names(asked[at])
		if err != nil {
			return nil, err
		}
		if len(rows) == size {
			next = placeToken(asked, at, "")
			break
		}
		found, behind, err := s.listGrants(uint32(size-len(rows)), ofEntitlement, inner, nil, texts...)
		if err != nil {
			return nil, err
		}
		rows = append(rows, found...)
		if inner = behind; inner == "" {
			at++
		} else if len(rows) == size {
			next = placeToken(asked, at, inner)
		}
	}
	return reader_v2.GrantsReaderServiceListGrantsForEntitlementsResponse_builder{List: rows, NextPageToken: next}.Build(), nil
}

// pageRows is the most rows of a page.
const pageRows = 10_000

// sumOf tells lists of entitlements apart: a token is of one of them.
func sumOf(asked []*v2.Entitlement) uint32 {
	var all []byte
	for _, entitlement := range asked {
		id := entitlement.GetResource().GetId()
		all = appendTexts(all, id.GetResourceType(), id.GetResource(), entitlement.GetId())
	}
	return crc32.ChecksumIEEE(all)
}

// placeToken names a place among several entitlements.
func placeToken(asked []*v2.Entitlement, at int, inner string) string {
	token := appendNumber(appendNumber(nil, int(sumOf(asked))), at)
	return base64.RawURLEncoding.EncodeToString(append(token, inner...))
}

func (s *Store) placeAmong(asked []*v2.Entitlement, token string) (at int, inner string, err error) {
	if token == "" {
		return 0, "", nil
	}
	bytes, err := base64.RawURLEncoding.DecodeString(token)
	f := flat{bytes: bytes}
	sum, at := f.number(), f.number()
	if err != nil || f.broken || uint32(sum) != sumOf(asked) || at > len(asked) {
		return 0, "", &Error{codes.InvalidArgument, "the page token does not belong to these entitlements; start again without one"}
	}
	return at, string(f.bytes), nil
}

// ListGrantsForPrincipal lists the grants of a principal: all, or that of an entitlement.
func (s *Store) ListGrantsForPrincipal(ctx context.Context, req *reader_v2.GrantsReaderServiceListGrantsForPrincipalRequest) (*reader_v2.GrantsReaderServiceListGrantsForPrincipalResponse, error) {
	if err := s.ready(ctx, req); err != nil {
		return nil, err
	}
	principal := req.GetPrincipalId()
	if principal.GetResource() == "" {
		return nil, &Error{codes.InvalidArgument, "a principal has to be named by type and id"}
	}
	scope, texts := ofPrincipal, []string{principal.GetResourceType(), principal.GetResource()}
	if entitlement := req.GetEntitlement(); entitlement.GetId() != "" {
		of, err := names(entitlement)
		if err != nil {
			return nil, err
		}
		scope, texts = ofEdge, append(of, texts...)
	}
	rows, next, err := s.listGrants(req.GetPageSize(), scope, req.GetPageToken(), nil, texts...)
	if err != nil {
		return nil, err
	}
	return reader_v2.GrantsReaderServiceListGrantsForPrincipalResponse_builder{List: rows, NextPageToken: next}.Build(), nil
}

// ListGrantsForResourceType lists the grants to principals of a type, as the SDK's Pebble engine does.
func (s *Store) ListGrantsForResourceType(ctx context.Context, req *reader_v2.GrantsReaderServiceListGrantsForResourceTypeRequest) (*reader_v2.GrantsReaderServiceListGrantsForResourceTypeResponse, error) {
	if err := s.ready(ctx, req); err != nil {
		return nil, err
	}
	if req.GetResourceTypeId() == "" {
		return nil, &Error{codes.InvalidArgument, "a resource type has to be named"}
	}
	rows, next, err := s.listGrants(req.GetPageSize(), ofPrincipalType, req.GetPageToken(), nil, req.GetResourceTypeId())
	if err != nil {
		return nil, err
	}
	return reader_v2.GrantsReaderServiceListGrantsForResourceTypeResponse_builder{List: rows, NextPageToken: next}.Build(), nil
}

// GetAsset gives the content type and the data of an asset.
func (s *Store) GetAsset(ctx context.Context, req *v2.AssetServiceGetAssetRequest) (string, io.Reader, error) {
	if err := ctx.Err(); err != nil {
		return "", nil, err
	}
	if err := s.expects(nil, ""); err != nil {
		return "", nil, err
	}
	id := req.GetAsset().GetId()
	asked, err := question(0, byID, "", id)
	if err != nil {
		return "", nil, err
	}
	var contentType string
	var data [][]byte
	err = s.graph.list(assets, asked, func(page []byte) error {
		count, reader, _, err := pageOf(page)
		if err == nil && count > 0 {
			contentType = reader.text()
			data = append(data, append([]byte(nil), reader.blob()...))
			err = reader.err()
		}
		return err
	})
	found, err := only(data, err, "asset", id)
	if err != nil {
		return "", nil, err
	}
	return contentType, bytes.NewReader(found), nil
}
