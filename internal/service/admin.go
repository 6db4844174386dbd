package service

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/idempotency"
)

// admin is the part of the service for operators.
type admin struct{ view }

var _ belljar.Admin = admin{}

// allowed refuses a caller who is not an operator.
func (v view) allowed(what string) error {
	if v.caller.Admin() {
		return nil
	}
	err := fault.Forbidden(what)
	v.service.denied(v.caller, err)
	return err
}

// Runs lists the runs of all users.
func (v admin) Runs(ctx context.Context, q belljar.RunQuery) (belljar.RunPage, error) {
	if err := v.allowed("see the runs of all users"); err != nil {
		return belljar.RunPage{}, err
	}
	return v.service.list(ctx, q)
}

// Idempotency lists the idempotency keys in force.
func (v admin) Idempotency(ctx context.Context, q belljar.KeyQuery) ([]belljar.KeyEntry, error) {
	if err := v.allowed("see idempotency keys"); err != nil {
		return nil, err
	}
	switch q.Endpoint {
	case "", idempotency.Runs, idempotency.Sessions:
	default:
		return nil, fault.Refuse("endpoint", q.Endpoint, "endpoint must be runs or sessions")
	}
	if err := checkPage(&q.Limit, q.Offset); err != nil {
		return nil, err
	}
	if err := v.service.keys.Sweep(ctx); err != nil { // otherwise expired keys would be listed
		return nil, fault.Record("list idempotency keys", err)
	}
	list, err := v.service.opts.Store.Keys().List(ctx, q)
	if err != nil {
		return nil, fault.Record("list idempotency keys", err)
	}
	return list, nil
}

// Usage lists the users with the highest usage.
func (v admin) Usage(ctx context.Context, limit int) ([]belljar.UserUsage, error) {
	if err := v.allowed("see the usage of all users"); err != nil {
		return nil, err
	}
	if err := checkPage(&limit, 0); err != nil {
		return nil, err
	}
	users, now := v.service.opts.Store.Users(), v.service.clock.Now()
	list, err := users.Top(ctx, limit, now)
	if err != nil {
		return nil, fault.Record("list usage", err)
	}
	volumes := v.service.volumes.BytesOfAll()
	for i := range list {
		list[i].ArtifactBytes += volumes[list[i].UserID]
		delete(volumes, list[i].UserID)
	}
	for user, bytes := range volumes { // these may belong to the top by their volumes
		u, err := users.Usage(ctx, user, now)
		if err != nil {
			return nil, fault.Record("list usage", err)
		}
		u.UserID = user
		u.ArtifactBytes += bytes
		list = append(list, u)
	}
	slices.SortFunc(list, func(a, b belljar.UserUsage) int {
		return cmp.Or(cmp.Compare(b.ArtifactBytes, a.ArtifactBytes), cmp.Compare(a.UserID, b.UserID))
	})
	return list[:min(limit, len(list))], nil
}

// Quota returns the quota in force for a user.
func (v admin) Quota(ctx context.Context, userID string) (belljar.Quota, error) {
	if err := v.allowed("see quotas"); err != nil {
		return belljar.Quota{}, err
	}
	return v.service.accounts.Quota(ctx, userID)
}

// mostMB is the largest quota of bytes, in MiB, whose bytes can be counted without overflow.
const mostMB = 1 << 40

// SetQuota stores a quota for one user, or removes it if it is nil. It applies to new requests.
func (v admin) SetQuota(ctx context.Context, userID string, q *belljar.Quota) error {
	if err := v.allowed("set quotas"); err != nil {
		return err
	}
	if err := checkUser(userID); err != nil {
		return err
	}
	detail := map[string]string{"user_id": userID}
	if q == nil {
		detail["quota"] = "default"
	} else if err := checkQuota(q); err != nil {
		return err
	}
	if err := v.service.opts.Store.Users().SetQuota(ctx, userID, q); err != nil {
		return fault.Record("store the quota of "+userID, err)
	}
	v.service.accounts.SetQuota(userID, q)
	v.service.emit(event.Event{Name: event.QuotaSet, Caller: v.caller, Detail: detail})
	return nil
}

func checkQuota(q *belljar.Quota) error {
	for _, f := range []struct {
		name  string
		value float64
	}{
		{"concurrent_runs", float64(q.ConcurrentRuns)}, {"cpu_seconds_per_day", q.CPUSecondsPerDay}, {"artifact_mb", float64(q.ArtifactMB)}, {"log_mb", float64(q.LogMB)},
		{"memory_mb", float64(q.MemoryMB)}, {"cpu", q.CPU}, {"egress_mb_per_day", float64(q.EgressMBPerDay)},
	} {
		if f.value < 0 || math.IsNaN(f.value) || math.IsInf(f.value, 0) {
			return fault.Refuse(f.name, f.value, f.name+" must not be negative; 0 is no limit")
		}
		if strings.Contains(f.name, "_mb") && f.value > mostMB {
			return fault.Refuse(f.name, f.value, fmt.Sprintf("%s must be at most %d; 0 is no limit", f.name, mostMB))
		}
	}
	return nil
}
