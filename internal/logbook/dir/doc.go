// Package dir stores logs in files below one folder, one for each run. Appended frames survive the death of the
// process. A sealed log survives a power failure.
//
// # Location of a log
//
// The log with an id is <path>/<day>/<hour>/<id>.log, by the time in a UUIDv7 (UTC). Ids without a time are below
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
// Records follow each other without a gap, one for each frame, whose seq is its position:
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
//	kind 6     seal: the salt, the number of frames, the offset of this record (8 bytes each); the last record
//
// A sum is valid at only one position of one file, so a lost, duplicated or moved record is detected. A program
// controls its output but does not know the salt, so it cannot forge a seal.
//
// # After a crash
//
// A file that ends with its seal is complete. Opening it reads only its two ends. Any other file is read in full: the
// log continues after the last valid record, and the next write truncates the rest. A damaged record counts as the end
// of its log, and the damage is logged.
//
// # Readers
//
// The end of an open log stays in memory, in the format of the file, and is shared by all readers that follow it. Other
// readers read blocks of the file. A reader holds no lock while it reads or waits, so it never delays the writer.
package dir
