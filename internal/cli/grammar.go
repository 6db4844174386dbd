package cli

import (
	"cmp"
	"reflect"
	"strings"
)

// grammarFor returns what args are parsed by: a pointer to [commands], or to a struct with the same flags and only the command
// that args begin with. To build the model of all commands takes 3 ms. Completion and help need all of them.
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

// textOf returns a flag of a grammar.
func textOf(grammar any, field string) string {
	return reflect.ValueOf(grammar).Elem().FieldByName(field).String()
}
