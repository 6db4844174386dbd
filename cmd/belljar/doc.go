// Command belljar runs code nobody has vetted inside a sealed sandbox.
//
// One file per command. The commands talk to the interfaces of the root package and to nothing below; the only files
// that know which implementation stands behind them are the engine*.go.
package main
