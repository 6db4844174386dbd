package rest

// imageWords are the descriptions of the properties of images; see [words].
func imageWords() map[string]string {
	return map[string]string{
		"Image.ref": "Its first name: host, or a whole reference such as docker.io/library/python:3.11-slim", "Image.names": "All its names, as they were given",
		"Image.digest":  "sha256: and the digest of its manifest for this platform; empty for host",
		"Image.runtime": "The runtime whose engine keeps it; empty if Belljar does, for every runtime that can use it",
		"Image.source":  "pull, import, build, host or engine", "platform": "Such as linux/amd64", "Image.bytes": "Of its files, unpacked", "Image.layers": "How many layers it is made of",
		"Image.config": "Its settings for programs", "Image.created_at": "When it was made, according to the image", "added_at": "When it came here",
		"Image.last_used_at": "When a sandbox had it last, to the minute", "in_use": "Whether living sandboxes have it",
		"ImageConfig.user": "Whom programs run as, unless it is root", "ImageConfig.env": "NAME=value; a request's env goes over it",
		"working_dir": "Where commands start that do not say, if it is there", "entrypoint": "Only shown: a request's command is the whole of it", "ImageConfig.cmd": "Only shown",
		"ImageConfig.labels":  "Names and values of its maker's own",
		"ImageProgress.phase": "resolving, pulling, unpacking or done", "ImageProgress.layer": "Digest of the layer that it is about; absent for all of it",
		"ImageProgress.done": "Bytes so far", "ImageProgress.total": "Bytes in all; absent if that is not known", "ImageProgress.shared": "Whether the layer was here already",
		"ImagePull.ref": "The image, such as python:3.11-slim", "ImagePull.runtime": "The runtime whose engine is to have it; Belljar's own store if it is not given. Operators only",
		"ImagePull.always": "Ask the registry what the name stands for now, even if an image of that name is here",
		"ImageTag.ref":     "The image, by a name or its digest", "ImageTag.name": "The name that it gets",
		"unused_sec": "Those go that no sandbox has used for so long", "keep_bytes": "Those used longest ago go until what is left has no more than this",
		"ImagePrune.all": "Every one goes that is not in use", "ImagePruned.images": "Digests of those that went", "ImagePruned.bytes": "How many were freed",
	}
}
