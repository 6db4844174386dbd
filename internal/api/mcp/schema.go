package mcp

// schema is a JSON Schema, 2020-12.
type schema map[string]any

// Kinds of values.
func aText(about string) schema  { return schema{"type": "string", "description": about} }
func aWhole(about string) schema { return schema{"type": "integer", "description": about} }
func aFlag(about string) schema  { return schema{"type": "boolean", "description": about} }
func aList(of schema) schema     { return schema{"type": "array", "items": of} }
func aTable(about string) schema {
	return schema{"type": "object", "additionalProperties": schema{"type": "string"}, "description": about}
}
func (s schema) atLeast(n int) schema { s["minimum"] = n; return s }

// takes are the arguments of a tool: these, and no others.
func takes(fields map[string]schema, required ...string) schema {
	s := gives(fields, required...)
	s["additionalProperties"] = false
	return s
}

// gives are the fields of a result; others may come.
func gives(fields map[string]schema, required ...string) schema {
	s := schema{"type": "object", "properties": fields}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

// closed is a schema of arguments with no others than those it names, in their lists neither.
func (s schema) closed() schema {
	c := schema{}
	if s["properties"] != nil {
		c["additionalProperties"] = false
	}
	for name, value := range s {
		switch value := value.(type) {
		case schema:
			c[name] = value.closed()
		case map[string]schema:
			all := map[string]schema{}
			for field, of := range value {
				all[field] = of.closed()
			}
			c[name] = all
		default:
			c[name] = value
		}
	}
	return c
}
