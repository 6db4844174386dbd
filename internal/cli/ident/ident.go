// Package ident shortens ids, and finds objects by a prefix of their id or by their name.
package ident

import (
	"context"
	"fmt"
	"strings"

	"github.com/belljar/belljar"
)

// idLength is the length of a complete id. shortest is the minimum length in lists: an id begins with its time in milliseconds,
// so a shorter prefix is rarely unique.
const (
	idLength = 36
	shortest = 13
)

// Short cuts ids to the shortest length that keeps them distinct.
func Short(ids []string) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		n := min(shortest, len(id))
		for j, other := range ids {
			for j != i && other != id && n < len(id) && strings.HasPrefix(other, id[:n]) {
				n++
			}
		}
		if n > idLength { // [Find] does not search for a prefix of this length
			n = len(id)
		}
		out[i] = id[:n]
	}
	return out
}

// Find returns the only id with this prefix among the pages that list returns. It returns a complete id unchanged.
func Find(kind, prefix string, list func(offset int) (ids []string, more bool, err error)) (string, error) {
	if len(prefix) >= idLength {
		return prefix, nil
	}
	prefix = strings.ToLower(prefix)
	found := ""
	for offset := 0; prefix != ""; {
		ids, more, err := list(offset)
		if err != nil {
			return "", err
		}
		for _, id := range ids {
			if !strings.HasPrefix(id, prefix) || id == found {
				continue
			}
			if found != "" {
				return "", &belljar.Error{
					Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf("more than one %s begins with %s", kind, prefix),
					Details: map[string]any{"prefix": prefix}, Hint: "give more of it",
				}
			}
			found = id
		}
		if offset += len(ids); !more || len(ids) == 0 {
			break
		}
	}
	if found == "" {
		return "", &belljar.Error{
			Code: belljar.CodeNotFound, Message: fmt.Sprintf("no %s begins with %q", kind, prefix), Details: map[string]any{"prefix": prefix},
			Hint: listCommand(kind) + " lists them",
		}
	}
	return found, nil
}

// Run returns the id of the caller's run with this prefix.
func Run(ctx context.Context, s belljar.Service, prefix string) (string, error) {
	return Find("run", prefix, func(offset int) (ids []string, more bool, err error) {
		page, err := s.Runs().List(ctx, belljar.RunQuery{Limit: belljar.MaxPage, Offset: offset})
		for _, run := range page.Items {
			ids = append(ids, run.ID)
		}
		return ids, page.HasMore, err
	})
}

// Session returns the id of the caller's session with this prefix.
func Session(ctx context.Context, s belljar.Service, prefix string) (string, error) {
	return Find("session", prefix, func(offset int) (ids []string, more bool, err error) {
		page, err := s.Sessions().List(ctx, belljar.SessionQuery{All: true, Limit: belljar.MaxPage, Offset: offset})
		for _, session := range page.Items {
			ids = append(ids, session.ID)
		}
		return ids, page.HasMore, err
	})
}

// Token returns the id of the API key or sign-in with this prefix.
func Token(ctx context.Context, s belljar.Service, prefix string) (string, error) {
	return Find("key", prefix, func(int) (ids []string, more bool, err error) {
		list, err := s.Admin().Tokens(ctx)
		for _, k := range list {
			ids = append(ids, k.ID)
		}
		return ids, false, err
	})
}

// Approval returns the id of the approval with this prefix. It prefers a waiting approval.
func Approval(ctx context.Context, s belljar.Service, prefix string) (id string, err error) {
	for _, state := range []belljar.ApprovalState{belljar.ApprovalPending, ""} {
		id, err = Find("approval", prefix, func(offset int) (ids []string, more bool, err error) {
			page, err := s.Admin().Approvals(ctx, belljar.ApprovalQuery{State: state, Limit: belljar.MaxPage, Offset: offset})
			for _, a := range page.Items {
				ids = append(ids, a.ID)
			}
			return ids, page.HasMore, err
		})
		if belljar.CodeOf(err) != belljar.CodeNotFound {
			break
		}
	}
	return id, err
}

// listCommand returns the command that lists objects of a kind.
func listCommand(kind string) string {
	switch kind {
	case "run":
		return "belljar ps --all"
	case "session":
		return "belljar session ls --all"
	case "snapshot":
		return "belljar snapshot ls"
	case "approval":
		return "belljar approval ls --all"
	}
	return "belljar token list"
}
