package duramen

import (
	"context"
	"iter"

	v2 "github.com/conductorone/baton-sdk/pb/c1/connector/v2"
	"github.com/conductorone/baton-sdk/pkg/dotc1z/c1zstore"
	"google.golang.org/grpc/codes"
)

// grantStore are the operations on grants that know of expansion.
type grantStore struct{ store *Store }

// StoreExpandedGrants puts grants that the expander made. What is known of the expansion of those that they replace stays.
func (g grantStore) StoreExpandedGrants(ctx context.Context, rows ...*v2.Grant) error {
	return g.store.putGrants(ctx, expandedGrants, rows)
}

// page lists grants with what is known of their expansion.
func (g grantStore) page(ctx context.Context, pageSize uint32, scope scope, token string, texts ...string) ([]c1zstore.GrantAnnotation, string, error) {
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	var pending []bool
	rows, next, err := g.store.listGrants(pageSize, scope, token, func(needsExpansion bool) {
		pending = append(pending, needsExpansion)
	}, texts...)
	if err != nil {
		return nil, "", err
	}
	found := make([]c1zstore.GrantAnnotation, len(rows))
	for i, row := range rows {
		annotation, err := expandable(row)
		if err != nil {
			return nil, "", err
		}
		principal := row.GetPrincipal().GetId()
		found[i] = c1zstore.GrantAnnotation{
			Grant:                   row,
			Annotation:              annotation,
			GrantExternalID:         row.GetId(),
			TargetEntitlementID:     row.GetEntitlement().GetId(),
			PrincipalResourceTypeID: principal.GetResourceType(),
			PrincipalResourceID:     principal.GetResource(),
			NeedsExpansion:          pending[i],
		}
	}
	return found, next, nil
}

// expandable is the annotation that says how a grant expands; nil if it does not.
func expandable(grant *v2.Grant) (*v2.GrantExpandable, error) {
	for _, annotation := range grant.GetAnnotations() {
		if found := (&v2.GrantExpandable{}); annotation.MessageIs(found) {
			return found, annotation.UnmarshalTo(found)
		}
	}
	return nil, nil
}

// PendingExpansionPage lists grants that have yet to be expanded.
func (g grantStore) PendingExpansionPage(ctx context.Context, pageToken string) ([]c1zstore.PendingExpansion, string, error) {
	rows, next, err := g.page(ctx, 0, needsExpansion, pageToken)
	var found []c1zstore.PendingExpansion
	for _, row := range rows {
		if row.Annotation != nil {
			found = append(found, c1zstore.PendingExpansion{
				GrantExternalID:         row.GrantExternalID,
				TargetEntitlementID:     row.TargetEntitlementID,
				PrincipalResourceTypeID: row.PrincipalResourceTypeID,
				PrincipalResourceID:     row.PrincipalResourceID,
				Annotation:              row.Annotation,
				NeedsExpansion:          true,
			})
		}
	}
	return found, next, err
}

// PendingExpansion gives all grants that have yet to be expanded.
func (g grantStore) PendingExpansion(ctx context.Context) iter.Seq2[c1zstore.PendingExpansion, error] {
	return pages(func(token string) ([]c1zstore.PendingExpansion, string, error) {
		return g.PendingExpansionPage(ctx, token)
	})
}

// ListWithAnnotationsPage lists all grants.
func (g grantStore) ListWithAnnotationsPage(ctx context.Context, pageToken string) ([]c1zstore.GrantAnnotation, string, error) {
	return g.page(ctx, 0, all, pageToken)
}

// ListWithAnnotationsForResourcePage lists the grants of the entitlements of a resource.
func (g grantStore) ListWithAnnotationsForResourcePage(ctx context.Context, resource *v2.Resource, syncID, pageToken string, pageSize uint32) ([]c1zstore.GrantAnnotation, string, error) {
	if resource.GetId() == nil {
		return nil, "", &Error{codes.InvalidArgument, "a resource has to be named"}
	}
	if err := g.store.expects(nil, syncID); err != nil {
		return nil, "", err
	}
	scope, texts := ofResourceOrAll(resource)
	return g.page(ctx, pageSize, scope, pageToken, texts...)
}

// ListWithAnnotations gives all grants.
func (g grantStore) ListWithAnnotations(ctx context.Context) iter.Seq2[c1zstore.GrantAnnotation, error] {
	return pages(func(token string) ([]c1zstore.GrantAnnotation, string, error) {
		return g.ListWithAnnotationsPage(ctx, token)
	})
}

// pages gives the rows of all pages. An error is the last that it gives.
func pages[Row any](page func(token string) ([]Row, string, error)) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		token := ""
		for {
			rows, next, err := page(token)
			if err != nil {
				var none Row
				yield(none, err)
				return
			}
			for _, row := range rows {
				if !yield(row, nil) {
					return
				}
			}
			if token = next; token == "" {
				return
			}
		}
	}
}
