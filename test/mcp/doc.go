// Package mcp tests Belljar's MCP server from outside, with the official TypeScript client: on stdio without a server and
// with one, and over HTTP. check.mjs contains the checks; the Go tests start the programs.
package mcp
