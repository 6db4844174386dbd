package cli

import (
	"cmp"
	"reflect"
	"strings"
)

// grammarFor returns the grammar for args: a pointer to [commands], or to a struct with the same flags and only the command that
// args begin with. Building the model of all commands takes 3 ms; only completion and help need it.
func grammarFor(args []string) any {
	if len(args) == 0 || args[0] == "completion" || args[0] == "help" {
		return &commands{}
	}
	all := reflect.TypeFor[commands]()
	var fields []reflect.StructField
	found := false
	for field := range all.Fields() {
		if _, command := field.Tag.Lookup("cmd"); command {
			if cmp.Or(field.Tag.Get("name"), strings.ToLower(field.Name)) != args[0] {
				continue
			}
			found = true
		}
		fields = append(fields, field)
	}
	if !found {
		return &commands{}
	}
	return reflect.New(reflect.StructOf(fields)).Interface()
}

// textOf returns the value of a flag in a grammar.
func textOf(grammar any, field string) string {
	return reflect.ValueOf(grammar).Elem().FieldByName(field).String()
}
