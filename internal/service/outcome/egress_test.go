package outcome

import (
	"reflect"
	"testing"

	"github.com/belljar/belljar"
)

func TestAddEgress(t *testing.T) {
	now := belljar.EgressReport{Allowed: 1, Denied: 2, BytesIn: 3, BytesOut: 4, Hosts: []belljar.EgressHost{
		{Host: "a", Rule: "a", IP: "192.0.2.1", Allowed: 1, BytesIn: 3, BytesOut: 4}, {Host: "b", Reason: "no_match", Denied: 2},
	}}
	if got := AddEgress(nil, now); !reflect.DeepEqual(got, now) {
		t.Errorf("%+v", got)
	}
	earlier := &belljar.EgressReport{Presets: []belljar.NetworkPreset{{Name: "pip"}}, Allowed: 5, Denied: 1, BytesIn: 10, BytesOut: 10, Hosts: []belljar.EgressHost{
		{Host: "a", Rule: "a", IP: "192.0.2.9", Allowed: 5, BytesIn: 10, BytesOut: 10}, {Host: "b", Reason: "limit", Denied: 1},
	}}
	want := belljar.EgressReport{Presets: earlier.Presets, Allowed: 6, Denied: 3, BytesIn: 13, BytesOut: 14, Hosts: []belljar.EgressHost{
		{Host: "a", Rule: "a", IP: "192.0.2.1", Allowed: 6, BytesIn: 13, BytesOut: 14}, {Host: "b", Reason: "limit", Denied: 1},
		{Host: "b", Reason: "no_match", Denied: 2},
	}}
	if got := AddEgress(earlier, now); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}
