import { base64, bytesOf, newKey, textOf, unbase64, utf8 } from "./bytes.js";
import type { CallOptions } from "./call.js";
import { queryOf, route, type Ask, type Connection } from "./connection.js";
import { blobOf, bodyOf, ByteStream, type Content } from "./content.js";
import { BelljarError, invalid } from "./error.js";
import { download, downloadAll, type DownloadOptions } from "./download.js";
import type { FileEntry, FileList, FileMatches, FileSearch, Space, UploadResult } from "./types.js";

/** Options for writing a file. */
export interface WriteOptions extends CallOptions {
  /** Replace an existing file. Otherwise it causes a {@link ConflictError}. */
  overwrite?: boolean | undefined;
  /** Permission bits; by default those of the file that is replaced, and 0o644 for a new one. */
  mode?: number | undefined;
  /**
   * Replace the file only if its content has this `etag` of {@link Files.part} or of an earlier write, or with `*` if a file exists. Otherwise it
   * throws {@link PreconditionFailedError}. `overwrite` is then not needed.
   */
  ifMatch?: string | undefined;
}

/** A file, or a part of one. */
export interface FilePart {
  content: Uint8Array;
  /** The size of the whole file in bytes. */
  size: number;
  /** The offset of the next part; undefined at the end. */
  nextOffset?: number | undefined;
  /** The ETag of the file, if this is the whole file. */
  etag?: string | undefined;
}

/** One file of several. */
export interface NamedContent {
  path: string;
  content: string | Uint8Array;
  mode?: number | undefined;
}

/** The format of an archive. */
export type ArchiveFormat = "tar" | "tar.gz" | "zip";

const archiveTypes: Record<ArchiveFormat, string> = { tar: "application/x-tar", "tar.gz": "application/gzip", zip: "application/zip" };

// Extra time for an answer that waits for a sandbox.
const longerMs = 60_000;

/** The workspace of a session. `x` and `/workspace/x` are the same file; a path that leads out of the workspace is a {@link PathEscapesError}. */
export class Files {
  readonly #connection: Connection;
  readonly #session: string;

  /** @internal */
  constructor(connection: Connection, session: string) {
    this.#connection = connection;
    this.#session = session;
  }

  /** write writes a file of any size, whole or not at all. It makes missing parent folders. */
  async write(path: string, content: Content, options: WriteOptions = {}): Promise<FileEntry> {
    const { entry } = await this.#connection.json<{ entry: FileEntry }>(
      {
        method: "PUT", path: this.#route("raw"), body: bodyOf(content), once: !options.overwrite || options.ifMatch !== undefined, longerMs,
        query: { path, overwrite: options.overwrite ? "true" : undefined, mode: octal(options.mode) },
        headers: { "Content-Type": "application/octet-stream", ...(options.ifMatch === undefined ? {} : { "If-Match": options.ifMatch }) },
      },
      options,
    );
    return entry;
  }

  /** url returns a link that downloads a file, for an `<a download>` in a page. It works once, within a minute. */
  url(path: string, options?: CallOptions): Promise<string> {
    return this.#connection.ticketUrl(this.#route("raw"), { path }, options);
  }

  /** archiveUrl returns a link that downloads a folder. It works once, within a minute. */
  archiveUrl(path = ".", format: ArchiveFormat = "tar", options?: CallOptions): Promise<string> {
    return this.#connection.ticketUrl(this.#route("archive"), { path, format }, options);
  }

  /** writeAll writes many small files, all of them or none: at most 1,000 files and 2 MiB in total. */
  async writeAll(
    files: Record<string, string | Uint8Array> | NamedContent[],
    options: Omit<WriteOptions, "mode" | "ifMatch"> = {},
  ): Promise<FileEntry[]> {
    const body = {
      overwrite: options.overwrite ?? false,
      files: namedOf(files).map(({ path, content, mode }) => ({
        path, contents_b64: base64(bytesOf(content)), mode: octal(mode),
      })),
    };
    const stored = await this.#post<{ entries: FileEntry[] }>("batch", body, options, !body.overwrite);
    return stored.entries;
  }

  /** read returns the bytes of a file, or a part of them. */
  read(path: string, options: DownloadOptions = {}): Promise<Uint8Array> {
    return downloadAll(this.#connection, this.#raw(path), options);
  }

  /** part returns a file of at most 8 MiB with its ETag, or a part of a larger one. */
  async part(path: string, options: CallOptions & { offset?: number; maxBytes?: number } = {}): Promise<FilePart> {
    type Part = { contents?: string; contents_b64?: string; size_bytes: number; next_offset?: number; etag?: string };
    const part = await this.#post<Part>("read", { path, offset: options.offset, max_bytes: options.maxBytes ?? 8 << 20 }, options);
    const content = part.contents === undefined ? unbase64(part.contents_b64 ?? "") : utf8(part.contents);
    return { content, size: part.size_bytes, nextOffset: part.next_offset, etag: part.etag };
  }

  /** text returns a file as UTF-8. */
  async text(path: string, options: CallOptions = {}): Promise<string> {
    return textOf(await this.read(path, options));
  }

  /** open opens a file of any size, to read as it arrives. */
  open(path: string, options: DownloadOptions = {}): Promise<ByteStream> {
    return download(this.#connection, this.#raw(path), options);
  }

  /** stat describes the file, folder or link at a path. It does not follow links. */
  stat(path: string, options?: CallOptions): Promise<FileEntry> {
    return this.#post("stat", { path }, options);
  }

  /** exists returns whether a path exists. */
  async exists(path: string, options?: CallOptions): Promise<boolean> {
    try {
      await this.stat(path, options);
      return true;
    } catch (error) {
      if (error instanceof BelljarError && error.code === "not_found" && error.details["path"] !== undefined) return false;
      throw error;
    }
  }

  /** list lists a folder: 1,000 entries by default, at most 10,000. */
  list(path = ".", options: CallOptions & { recursive?: boolean; limit?: number } = {}): Promise<FileList> {
    return this.#post("list", { path, recursive: options.recursive, limit: options.limit }, options);
  }

  /** mkdir makes a folder and its parents. An existing folder is not an error. */
  async mkdir(path: string, options: CallOptions & { mode?: number } = {}): Promise<void> {
    await this.#post("mkdir", { path, mode: octal(options.mode) }, options);
  }

  /** rename moves a file or folder. */
  async rename(from: string, to: string, options: CallOptions & { overwrite?: boolean } = {}): Promise<void> {
    await this.#post("rename", { from, to, overwrite: options.overwrite }, options, true);
  }

  /** delete removes a file or folder. A folder that is not empty needs `recursive`. */
  async delete(path: string, options: CallOptions & { recursive?: boolean } = {}): Promise<void> {
    await this.#post("delete", { path, recursive: options.recursive }, options, true);
  }

  /** search searches file names and lines, for at most 5 seconds. */
  search(what: FileSearch, options?: CallOptions): Promise<FileMatches> {
    return this.#post("search", what, options);
  }

  /** archive returns a folder or file as an archive. */
  async archive(path = ".", format: ArchiveFormat = "tar", options: CallOptions = {}): Promise<ByteStream> {
    const cut = "a file in it may be unreadable or changing, which the server's log shows";
    return download(this.#connection, { method: "GET", path: this.#route("archive"), query: { path, format }, longerMs }, options, cut);
  }

  /** space returns the used and total space of the workspace. */
  space(options?: CallOptions): Promise<Space> {
    return this.#connection.json({ method: "GET", path: this.#route("space"), longerMs }, options);
  }

  /** upload writes files below a folder, and replaces existing ones. It writes all of them or, after an error, none. */
  async upload(files: Record<string, Content> | { path: string; content: Content }[], options: CallOptions & { dir?: string } = {}): Promise<UploadResult> {
    const boundary = newKey();
    const form: BlobPart[] = [];
    for (const { path, content } of Array.isArray(files) ? files : Object.entries(files).map(([path, content]) => ({ path, content }))) {
      form.push(`--${boundary}\r\nContent-Disposition: form-data; name=files; filename*=UTF-8''${parameter(path)}\r\n\r\n`, await blobOf(content), "\r\n");
    }
    const body = new Blob([...form, `--${boundary}--\r\n`]);
    return this.#connection.json(
      {
        method: "POST", path: route("sessions", this.#session, "files"), query: { dir: options.dir, extract: "false" },
        body, headers: { "Content-Type": `multipart/form-data; boundary=${boundary}` }, once: true, longerMs,
      },
      options,
    );
  }

  /** unpack writes the files of an archive below a folder. It writes all of them or, after an error, none. */
  unpack(archive: Content, format: ArchiveFormat, options: CallOptions & { dir?: string } = {}): Promise<UploadResult> {
    const type = archiveTypes[format];
    if (!type) throw invalid("format", `"${format}" is no format of archives`, "formats are tar, tar.gz, zip");
    return this.#connection.json(
      {
        method: "POST", path: route("sessions", this.#session, "files"), query: queryOf({ dir: options.dir }),
        body: bodyOf(archive), headers: { "Content-Type": type }, once: true, longerMs,
      },
      options,
    );
  }

  #raw(path: string): Ask {
    return { method: "GET", path: this.#route("raw"), query: { path }, longerMs };
  }

  #route(op: string): string {
    return route("sessions", this.#session, "fs", op);
  }

  #post<T>(op: string, json: unknown, options?: CallOptions, once = false): Promise<T> {
    const ask: Ask = { method: "POST", path: this.#route(op), json, once, longerMs };
    return this.#connection.json<T>(ask, options);
  }
}

function namedOf(files: Record<string, string | Uint8Array> | NamedContent[]): NamedContent[] {
  return Array.isArray(files) ? files : Object.entries(files).map(([path, content]) => ({ path, content }));
}

// parameter encodes a path by RFC 2231. FormData would write a quote as %22, which the server does not decode.
function parameter(path: string): string {
  try {
    return encodeURIComponent(path).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16)}`);
  } catch {
    throw invalid("path", `path ${JSON.stringify(path)} has half a surrogate pair in it`);
  }
}

function octal(mode: number | undefined): string | undefined {
  return mode === undefined ? undefined : mode.toString(8).padStart(4, "0");
}
