package duramen

import (
	"encoding/binary"

	v2 "github.com/conductorone/baton-sdk/pb/c1/connector/v2"
	"google.golang.org/protobuf/proto"
)

// batchBytes is how many bytes of rows cross the boundary at once, or a row more.
const batchBytes = 1 << 20

// grantHead is how many bytes stand before the texts of a grant: eight numbers.
const grantHead = 32

// appendGrant appends a grant as it crosses the boundary.
func appendGrant(out []byte, grant *v2.Grant) ([]byte, error) {
	entitlement, principal := grant.GetEntitlement(), grant.GetPrincipal()
	resource, holder := entitlement.GetResource().GetId(), principal.GetId()
	texts := [6]string{grant.GetId(), entitlement.GetId(), resource.GetResourceType(), resource.GetResource(),
		holder.GetResourceType(), holder.GetResource()}
	start := len(out)
	out = append(out, make([]byte, grantHead)...)
	for i, text := range texts {
		binary.LittleEndian.PutUint32(out[start+4+4*i:], uint32(len(text)))
		out = append(out, text...)
	}
	parent := principal.GetParentResourceId()
	if len(grant.GetAnnotations()) == 0 && grant.GetSources() == nil && parent == nil {
		return out, nil
	}
	details := v2.Grant_builder{Annotations: grant.GetAnnotations(), Sources: grant.GetSources()}.Build()
	if parent.GetResource() != "" {
		details.SetPrincipal(v2.Resource_builder{ParentResourceId: parent}.Build())
	}
	before := len(out)
	out, err := proto.MarshalOptions{}.MarshalAppend(out, details)
	if err != nil {
		return out[:start], err
	}
	binary.LittleEndian.PutUint32(out[start+28:], uint32(len(out)-before))
	return out, nil
}

// grantRow is a grant with messages that it is made of, so that many of them are one allocation.
type grantRow struct {
	grant       v2.Grant
	principal   v2.Resource
	principalID v2.ResourceId
}

// heldRow is an entitlement with the messages that it is made of.
type heldRow struct {
	entitlement v2.Entitlement
	resource    v2.Resource
	resourceID  v2.ResourceId
}

// rowsAtOnce is how many grants share an allocation, and therefore how many one of them keeps in memory.
const rowsAtOnce = 32

// What bits of the first number of a grant say.
const (
	isPending = 1 << iota
	isOfSame
)

// readGrants makes grants of the rows of a page. For each, pending is told whether it has yet to be expanded.
func readGrants(count int, rows, heads flat, pending func(needsExpansion bool)) ([]*v2.Grant, error) {
	found := make([]*v2.Grant, 0, count)
	var held *heldRow
	for count > 0 {
		some := min(count, rowsAtOnce)
		count -= some
		// Texts of these grants are parts of one string, a copy of where they lie.
		numbers := heads.take(some * grantHead)
		size := 0
		for at := 0; at < len(numbers); at += grantHead {
			for part := at + 4; part < at+grantHead; part += 4 {
				size += int(binary.LittleEndian.Uint32(numbers[part:]))
			}
		}
		text := string(rows.take(size))
		if heads.broken || rows.broken {
			return nil, rows.err()
		}
		part := func(number int) string {
			size := binary.LittleEndian.Uint32(numbers[4+4*number:])
			found := text[:size]
			text = text[size:]
			return found
		}
		block := make([]grantRow, some)
		for i := range block {
			row := &block[i]
			row.grant.Id = part(0)
			if numbers[0]&isOfSame == 0 || held == nil {
				held = &heldRow{}
				held.entitlement.Id = part(1)
				held.resourceID.ResourceType = part(2)
				held.resourceID.Resource = part(3)
				held.resource.Id = &held.resourceID
				held.entitlement.Resource = &held.resource
			}
			row.principalID.ResourceType = part(4)
			row.principalID.Resource = part(5)
			row.principal.Id = &row.principalID
			row.grant.Principal = &row.principal
			if details := part(6); details != "" {
				if err := (proto.UnmarshalOptions{Merge: true}).Unmarshal([]byte(details), &row.grant); err != nil {
					return nil, err
				}
			}
			row.grant.Entitlement = &held.entitlement
			if pending != nil {
				pending(numbers[0]&isPending != 0)
			}
			numbers = numbers[grantHead:]
			found = append(found, &row.grant)
		}
	}
	return found, nil
}
