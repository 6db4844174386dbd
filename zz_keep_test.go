package belljar_test

import (
	_ "github.com/coder/websocket"
	_ "github.com/coreos/go-oidc/v3/oidc"
	_ "github.com/danielgtaylor/huma/v2"
	_ "github.com/danielgtaylor/huma/v2/adapters/humago"
	_ "github.com/gabriel-vasile/mimetype"
	_ "github.com/getkin/kin-openapi/openapi3"
	_ "github.com/golang-jwt/jwt/v5"
	_ "github.com/klauspost/compress/zstd"
	_ "github.com/pressly/goose/v3"
	_ "github.com/prometheus/client_golang/prometheus/promhttp"
	_ "go.yaml.in/yaml/v3"
	_ "golang.org/x/time/rate"
	_ "modernc.org/sqlite"
)
