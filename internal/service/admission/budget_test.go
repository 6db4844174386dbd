package admission

import (
	"reflect"
	"strings"
	"testing"

	"github.com/belljar/belljar"
)

// enlarge makes all texts and bytes of a value long. It reports whether there are any.
func enlarge(v reflect.Value) (found bool) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(strings.Repeat("x", 2*freeRequest))
		return true
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return enlarge(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			found = enlarge(v.Field(i)) || found
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2*freeRequest, 2*freeRequest))
		return v.Type().Elem().Kind() == reflect.Uint8 || enlarge(v.Index(0))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key := reflect.New(v.Type().Key()).Elem()
		found = enlarge(key)
		v.SetMapIndex(key, reflect.Zero(v.Type().Elem()))
	}
	return found
}

// Each field that a caller can make large counts in the memory for requests of unfinished runs.
func TestWeightOfEachField(t *testing.T) {
	of := reflect.TypeFor[belljar.RunSpec]()
	for i := range of.NumField() {
		spec := &belljar.RunSpec{}
		if enlarge(reflect.ValueOf(spec).Elem().Field(i)) && weight(spec) < freeRequest {
			t.Errorf("%s weighs %d", of.Field(i).Name, weight(spec))
		}
	}
}

// A request's weight is about its size in memory, however it is divided into parts.
func TestWeight(t *testing.T) {
	path := strings.Repeat("d", 1000)
	for name, test := range map[string]struct {
		spec        belljar.RunSpec
		least, most int64
	}{
		"usual":          {belljar.RunSpec{Command: []string{"sh", "-c", "true"}, Env: map[string]string{"A": "b"}}, 0, 0},
		"empty files":    {belljar.RunSpec{Files: manyOf(4000, belljar.InlineFile{Path: path})}, 4_000_000, 5_000_000},
		"short files":    {belljar.RunSpec{Files: manyOf(4000, belljar.InlineFile{Path: "f", Content: make([]byte, 100)})}, 500_000, 1_000_000},
		"empty words":    {belljar.RunSpec{Command: make([]string, 4096)}, 40_000, 80_000},
		"patterns":       {belljar.RunSpec{CapturePatterns: manyOf(256, path)}, 240_000, 300_000},
		"names of hosts": {belljar.RunSpec{Egress: belljar.Egress{Hosts: manyOf(1000, path[:200])}}, 190_000, 250_000},
		"patch":          {belljar.RunSpec{Git: &belljar.GitSpec{Patch: strings.Repeat(path, 100)}}, 80_000, 100_000},
	} {
		if n := weight(&test.spec); n < test.least || n > test.most {
			t.Errorf("%s: %d bytes, want %d to %d", name, n, test.least, test.most)
		}
	}
}

// manyOf returns a list with n times the same element.
func manyOf[T any](n int, of T) []T {
	list := make([]T, n)
	for i := range list {
		list[i] = of
	}
	return list
}

func BenchmarkWeight(b *testing.B) {
	spec := &belljar.RunSpec{BaseImage: "python:3.12", Code: "print(1)", Env: map[string]string{"A": "b", "C": "d"}, Files: manyOf(2, belljar.InlineFile{Path: "f"})}
	for b.Loop() {
		weight(spec)
	}
}
