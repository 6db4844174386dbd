// Package dir keeps logs in files, one a run, below one folder. What Append has kept survives the death of the process;
// what Seal has closed survives the loss of power.
//
// # Where a log lies
//
// The log of id is <path>/<day>/<hour>/<id>.log, by the time in a UUIDv7 (UTC); ids without a time are below
// <path>/other. Folders have mode 0700, files 0600.
//
// # The file
//
// All numbers are little-endian. A file begins with a head of 16 bytes, written together with the first frame:
//
//	"BJLG"   4 bytes
//	version  1 byte, 1
//	zero     3 bytes
//	salt     8 random bytes, which nothing outside the file knows
//
// Records follow each other without a gap, one a frame, whose seq is its place:
//
//	length   4 bytes, of the payload, at most 16 MiB
//	sum      4 bytes, CRC-32C of kind and payload, begun with the CRC-32C of the salt xor both halves of seq
//	kind     1 byte
//	payload
//
//	kind 1, 2  stdout, stderr: the bytes as they are
//	kind 3     event: the length of its name (uvarint), its name, its data as JSON or nothing
//	kind 4     truncated: the reason
//	kind 5     heartbeat: seconds since 1970 (8 bytes), nanoseconds (4 bytes)
//	kind 6     seal: the salt, how many frames there are, the offset of this record (8 bytes each); the last record
//
// A sum fits at one place of one file only, so no record can be lost, doubled or moved unseen. A program knows what it
// prints but not the salt, so it cannot print a seal.
//
// # After a crash
//
// A file that ends with its seal is whole; opening it reads its two ends. Any other is read through: it continues after
// the last record whose sum is right, and what lies after that is cut off when something is written. A record that is
// damaged counts as the end of its log, and the damage is logged.
//
// # Readers
//
// The end of a growing log stays in memory, as the file has it, and all readers that follow share it. Others read
// blocks of the file. A reader holds no lock while it reads or waits, so none delays the writer.
package dir
