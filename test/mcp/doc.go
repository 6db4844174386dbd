// Package mcp checks Belljar's MCP server from outside, with the official TypeScript client: on stdio without a server and
// with one, and over HTTP. The checks are check.mjs; the Go tests start what they need.
package mcp
