// Package belljar holds the nouns of Belljar: what a caller asks for ([RunSpec], [Limits]), what happened
// ([Run], [Frame], [Artifact], [ResourceUsage]), how things fail ([Error], [Code]), and the small interfaces
// ([Runs]) that the service implements in process and a client implements over the network.
//
// It imports the standard library only and does no input or output. JSON names follow specification S0
// (the sandbox HTTP API); where a name is Belljar's own, its comment says so.
package belljar
