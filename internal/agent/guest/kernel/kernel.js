// The Node kernel: it executes cells one after the other in the global scope, which keeps its variables.
//
// Requests are lines of JSON on the socket 98, and the code of each is in the file 99. Reports are lines of an id, and either "open" (the
// cell's streams are open), an exit status, or "= " and a result in JSON. Cells are evaluated as in a debugger's console: they
// may use await, and redeclare const and let.
//
// A second thread reads the requests, because a cell may keep this one busy. It interrupts cells like a debugger, and not by a signal:
// Node handles SIGINT in two ways, for code that runs and for code that waits, and a signal between the two ends the process.
'use strict';
{
  const fs = require('fs'), vm = require('vm'), util = require('util'), path = require('path');
  const { Worker } = require('worker_threads');
  const { createRequire, builtinModules } = require('module');
  const { pathToFileURL, URL } = require('url');
  const inspector = require('inspector');
  const SOCKET = 98, TEXT = 99;
  const MOST_TEXT = 256 << 10, MOST_DATA = 2 << 20, MOST_BUNDLE = 3 << 20, MOST_FRAMES = 50;
  const soon = setImmediate;
  const devices = require('os').devNull || '/dev/null';

  const { process, Buffer } = globalThis; // a cell may delete them
  const die = process.reallyExit.bind(process, 1);

  const session = new inspector.Session();
  session.connect();
  // without removes this program's part of error stacks from a text: the call of the cell, and all frames below it.
  const own = /\n +at Session\.post \(node:inspector:[\d:]+\)(?:\n +at [^\n]*\(belljar:kernel:[\d:]+\)(?:\n +at (?:[^\n]*\)|[^\n]*:\d+:\d+))*|(?!\n +at ))/g;
  const same = /\n +\.{3} \d+ lines matching cause stack trace \.{3}\n +at [^\n]*(?:node:internal\/|belljar:kernel:)[^\n]*:\d+\)?/g; // in an error with a cause
  const without = (text) => (text.includes('Session.post (node:inspector:') ? text.replace(own, '').replace(same, '') : text);

  // writeAll waits while a non-blocking file is full: the socket is non-blocking, and a child may make a stream so.
  const nap = new Int32Array(new SharedArrayBuffer(4));
  function writeAll(fd, bytes) {
    for (let at = 0; at < bytes.length;) {
      try {
        at += fs.writeSync(fd, bytes, at);
      } catch (e) {
        if (e.code !== 'EAGAIN') throw e;
        Atomics.wait(nap, 0, 0, 5);
      }
    }
  }

  const owned = [true, true, true]; // whether descriptors 0 to 2 are the kernel's streams; see openStreams

  // A stream of Node that is interrupted during a write, or fails once, never writes again. These streams write directly to the descriptor.
  for (const [fd, stream] of [[1, process.stdout], [2, process.stderr]]) {
    stream.write = (chunk, encoding, done) => {
      if (typeof encoding === 'function') [encoding, done] = [undefined, encoding];
      if (typeof chunk !== 'string' && !ArrayBuffer.isView(chunk)) throw new TypeError('a stream takes strings, buffers and typed arrays');
      const bytes = typeof chunk === 'string' ? Buffer.from(without(chunk), encoding) : Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
      let failed = null;
      try {
        if (owned[fd]) writeAll(fd, bytes);
      } catch (e) {
        failed = e;
      }
      if (typeof done === 'function') process.nextTick(done, failed);
      return true;
    };
  }
  let id = null, now = null, cell = 0, hasStdin = false, late = '';
  let told = 0; // the number of the last request whose error has been reported

  // send writes a report synchronously, so that a cell that blocks or ends the process does not delay it.
  function send(text, before = '') {
    if (id === null) return;
    try { writeAll(SOCKET, Buffer.from(before + id + ' ' + text + '\n')); } catch { die(); }
  }
  const result = (type, fields) => send('= ' + JSON.stringify({ type, ...fields }));

  // openStreams opens descriptors 0 to 2, and calls done. A file gets the lowest free number, and a cell's file work in other threads may
  // take the one that was closed here, or the last descriptor of all. Then this retries until that work has closed its file, for 10 seconds.
  let turn = 0, until = Infinity;
  function openStreams(paths, done) {
    const mine = ++turn;
    const open = (fd) => {
      for (; fd < 3; fd++) {
        try { if (owned[fd]) fs.closeSync(fd); } catch { /* a cell has closed it */ }
        let opened = -1;
        try { opened = fs.openSync(paths[fd], fd === 0 ? 'r' : 'w'); } catch (e) { if (e.code !== 'EMFILE') throw e; }
        owned[fd] = opened === fd;
        if (owned[fd]) continue;
        if (opened >= 0) fs.closeSync(opened);
        until = Math.min(until, process.uptime() + 10);
        if (process.uptime() >= until) die();
        return soon(attempt, fd);
      }
      until = Infinity;
      hasStdin = paths[0] !== devices;
      let stdin;
      Object.defineProperty(process, 'stdin', {
        configurable: true, enumerable: true, get: () => (stdin = stdin || new fs.ReadStream(null, { fd: 0, autoClose: false })),
      });
      done();
    };
    const attempt = (fd) => {
      if (mine !== turn) return; // an interrupt has ended the request
      try { open(fd); } catch { die(); }
    };
    attempt(0);
  }

  // Representations.

  const cut = (text, most = MOST_TEXT) => text.length <= most ? text : text.slice(0, most) + `\n[${text.length - most} more characters]`;
  const inspect = (value) => without(util.inspect(value, { depth: 4, maxArrayLength: 100, maxStringLength: 100000, breakLength: 100 }));
  const MIME = /^[a-z]+\/[a-z0-9.+-]+$/;

  function bundle(value) {
    try {
      shorten(value);
      const given = value && value[Symbol.for('Jupyter.display')];
      if (typeof given === 'function') return { 'text/plain': inspect(value), ...given.call(value) };
    } catch { /* show it like any object */ }
    const data = { 'text/plain': inspect(value) };
    if (Buffer.isBuffer(value) && value.length > 8 && value.readUInt32BE(0) === 0x89504e47) data['image/png'] = value;
    if (value !== null && typeof value === 'object' && plain(value)) {
      try {
        const json = JSON.stringify(value, faithful);
        if (json !== undefined && json.length < 64 << 10) data['application/json'] = JSON.parse(json);
      } catch { /* it has cycles, or values that JSON lacks */ }
    }
    return data;
  }

  function plain(object) {
    const proto = Object.getPrototypeOf(object);
    return Array.isArray(object) || proto === null || Object.getPrototypeOf(proto) === null;
  }

  // faithful throws at a value that JSON.stringify would replace by another one, like NaN by null and a Set by {}.
  function faithful(key, value) {
    if (typeof value === 'object' ? value === null || plain(value) : Number.isFinite(value) || /string|boolean/.test(typeof value)) return value;
    throw new TypeError(key);
  }

  // unpacked returns a representation that was given as bytes: JSON, text, or in base64.
  function unpacked(mime, bytes) {
    if (mime.endsWith('json')) {
      try { return JSON.parse(bytes.toString()); } catch { return bytes.toString(); }
    }
    return bytes.toString(/^(text\/.*|image\/svg\+xml|application\/javascript)$/.test(mime) ? 'utf8' : 'base64');
  }

  function bounded(data) {
    const kept = {}, notes = [];
    let total = 0;
    for (let [mime, value] of Object.entries(data).sort(([a], [b]) => (b === 'text/plain') - (a === 'text/plain'))) {
      if (value === undefined || value === null) continue;
      mime = mime.slice(0, 100);
      if (value instanceof Uint8Array) value = unpacked(mime, Buffer.from(value));
      if (typeof value !== 'string' && !mime.endsWith('json')) value = String(value);
      if (mime === 'text/plain') value = cut(value);
      const size = (typeof value === 'string' ? value : JSON.stringify(value) || '').length;
      if (mime !== 'text/plain' && size > MOST_DATA || total + size > MOST_BUNDLE) {
        notes.push(`[${mime} of ${size} characters was left out]`);
        continue;
      }
      total += size;
      kept[mime] = value;
    }
    if (notes.length) kept['text/plain'] = [kept['text/plain'] || '', ...notes].join('\n').trim();
    return kept;
  }

  function display(...values) {
    for (const value of values) {
      const raw = value !== null && typeof value === 'object' && !Array.isArray(value) && Object.keys(value).length > 0 &&
        Object.keys(value).every((key) => MIME.test(key));
      result('display', { data: bounded(raw ? value : bundle(value)) });
    }
  }

  // Code.

  const text = /'(?:[^'\\\n]|\\[^])*'|"(?:[^"\\\n]|\\[^])*"|\/\/[^\n]*|\/\*[^]*?\*\/|[{}`/]/g;
  const template = /[`}](?:[^`\\$]|\\[^]|\$(?!\{))*(?:`|(\$\{))/y; // a piece of a template
  const regexp = /\/(?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/\w*/y;
  const operand = /[\w$)\]}'"`]\s*$/, keyword = /(?:^|[^.\w$])(?:return|typeof|case|do|else|in|of|delete|void|throw|new|await|yield)\s*$/;

  // texts finds strings, pieces of templates, regular expressions and comments: the start and the end of each.
  function* texts(code) {
    const open = []; // for each brace: whether it is a template's
    text.lastIndex = 0;
    for (let m; (m = text.exec(code)) !== null;) {
      const at = m.index, before = code.slice(Math.max(0, at - 20), at);
      let piece = null;
      if (m[0] === '{') open.push(false);
      else if (m[0] === '`' || m[0] === '}' && open.pop()) piece = template;
      else if (m[0] === '/' && (!operand.test(before) || keyword.test(before))) piece = regexp;
      if (piece) {
        piece.lastIndex = at;
        if (!(m = piece.exec(code))) continue;
        if (m[1]) open.push(true);
        text.lastIndex = piece.lastIndex;
      }
      const end = text.lastIndex;
      if (m[0].length > 1) yield [at, end];
      text.lastIndex = end;
    }
  }

  // skim calls use for each piece of code outside texts, and other for each text, and joins the results.
  function skim(code, use, other = (text) => text) {
    let out = '', last = 0;
    for (const [at, end] of texts(code)) {
      out += use(code.slice(last, at)) + other(code.slice(at, end));
      last = end;
    }
    return out + use(code.slice(last));
  }

  // imports rewrites import calls and declarations so that a console can evaluate them.
  function imports(code) {
    if (!code.includes('import')) return code;
    code = skim(code, (part) => part.replace(/(^|[^.\w$])import\s*(?=\()/g, '$1__import__'));
    const within = [...texts(code)];
    return code.replace(/(?<=^|;)[ \t]*import\s+(?:([\w$]+)\s*,?\s*)?(?:\{([^}]*)\}|\*\s*as\s+([\w$]+))?\s*(?:from\s*)?(['"])([^'"\n]+)\4(?:[ \t]*(with[ \t]*\{[^}]*\}))?[ \t]*;?/gm,
      (all, main, names, space, _, from, attributes, at) => {
        at += all.indexOf('import');
        if (within.some(([begin, end]) => begin <= at && at < end)) return all;
        const load = `await __import__(${JSON.stringify(from)}${attributes ? `, { ${attributes.replace('with', 'with:')} }` : ''})`;
        const parts = [main && `default: ${main}`, names && names.replace(/\bas\b/g, ':')].filter(Boolean);
        if (space) return `const ${space} = ${load}${main ? `, ${main} = ${space}.default` : ''};`;
        return parts.length ? `const { ${parts.join(', ')} } = ${load};` : `${load};`;
      });
  }

  // object puts parentheses around a cell that is an object literal, which would be parsed as a block.
  function object(code) {
    if (!/^\s*\{[^]*\}\s*$/.test(code)) return code;
    try {
      new vm.Script(`async () => (${code})`);
      return `(${code})`;
    } catch {
      return code;
    }
  }

  let bring = (name) => import(name);
  try { bring = eval('(name, options) => import(name, options)'); } catch { /* an old Node, whose imports have no options */ }

  function setGlobals() {
    const here = createRequire(path.join(process.cwd(), 'cell.js'));
    const load = async (name, options) => {
      name = String(name);
      if (name.startsWith('.') || path.isAbsolute(name)) return bring(new URL(name, pathToFileURL(process.cwd() + '/')).href, options);
      if (builtinModules.includes(name.replace(/^node:/, '')) || /^[a-z]+:/.test(name)) return bring(name, options);
      try {
        return bring(pathToFileURL(here.resolve(name)).href, options);
      } catch {
        return bring(name, options);
      }
    };
    const prompt = (text = '') => {
      process.stdout.write(text);
      if (!hasStdin) throw new Error('the code asks for input, and there is none: write the answer into the code, send stdin, or answer in belljar repl');
      result('input', { prompt: text.slice(0, 1000), password: false });
      const bytes = [], one = Buffer.alloc(1);
      let more;
      while ((more = fs.readSync(0, one, 0, 1, null)) === 1 && one[0] !== 10) bytes.push(one[0]);
      return more === 0 && bytes.length === 0 ? null : Buffer.from(bytes).toString();
    };
    for (const [name, value] of Object.entries({ require: here, display, prompt, __import__: load })) give(name, value);
  }

  // give sets a global variable, unless the program has one of its own.
  const given = new Map();
  function give(name, value) {
    const there = Object.getOwnPropertyDescriptor(globalThis, name);
    if (there && !Object.is(there.value, given.get(name))) return;
    given.set(name, value);
    Object.defineProperty(globalThis, name, { value, configurable: true, writable: true, enumerable: false });
  }

  const take = (remote) => {
    if (!remote) return undefined;
    if (!remote.objectId) {
      if (remote.unserializableValue) return vm.runInThisContext(`(${remote.unserializableValue})`);
      return remote.type === 'undefined' ? undefined : remote.value;
    }
    let value;
    globalThis.__take__ = (v) => { value = v; };
    session.post('Runtime.callFunctionOn', {
      functionDeclaration: 'function() { "use strict"; __take__(this) }', objectId: remote.objectId, silent: true,
    }, () => {});
    delete globalThis.__take__;
    session.post('Runtime.releaseObject', { objectId: remote.objectId }, () => {});
    return value;
  };

  // evaluate calls done with the value of a cell, or failed with the exception: immediately, or after the cell's awaits.
  function evaluate(code, name, done, failed) {
    const expression = `${imports(object(code))}\n//# sourceURL=${name}`;
    const answered = (err, answer) => {
      if (err) throw /terminated/.test(err.message) ? interrupted() : new Error(err.message);
      if (!answer.exceptionDetails) return take(answer.result);
      const { exception, text, lineNumber, columnNumber } = answer.exceptionDetails;
      const e = exception ? take(exception) : new Error(text);
      if (e instanceof SyntaxError && !trace(e).some((line) => line.includes(name))) { // in the cell itself
        const lines = expression.split('\n').slice(0, -1), at = Math.min(lineNumber, lines.length - 1);
        const column = at < lineNumber ? lines[at].length : columnNumber;
        e.stack = `${name}:${at + 1}\n${lines[at]}\n${' '.repeat(column)}^\n\n${e.name}: ${e.message}`;
      }
      throw e;
    };
    session.post('Runtime.evaluate', { expression, replMode: true, awaitPromise: true, silent: true }, (err, answer) => {
      try {
        done(answered(err, answer));
      } catch (e) {
        failed(e);
      }
    });
  }

  class KeyboardInterrupt extends Error {
    get name() { return 'KeyboardInterrupt'; }
  }
  function interrupted() {
    const e = new KeyboardInterrupt('the cell was interrupted');
    e.stack = 'KeyboardInterrupt: the cell was interrupted';
    return e;
  }

  // trace returns the lines of an error's stack, without the frames below the cell and those of this program.
  function trace(e) {
    const lines = String(e.stack).split('\n');
    const ours = lines.findIndex((line) => /^\s+at Session\.post \(node:inspector/.test(line));
    return (ours < 0 ? lines : lines.slice(0, ours)).filter((line) => !line.includes('belljar:kernel'));
  }

  const isAnError = (e) => util.types.isNativeError(e) || e instanceof Error;

  // shorten removes this program from the stacks of an error, its causes and its parts.
  function shorten(e, seen = new Set()) {
    if (!isAnError(e) || seen.has(e) || seen.size > 100) return;
    seen.add(e);
    if (typeof e.stack === 'string') Reflect.set(e, 'stack', trace(e).join('\n'));
    for (const part of [e.cause].concat(e.errors)) shorten(part, seen);
  }

  // describe returns the text of a thrown value, as Node prints it: an error's stack and its other properties.
  function describe(e) {
    shorten(e);
    const plain = isAnError(e) && typeof e.stack === 'string' && e.cause === undefined && e.errors === undefined && Object.keys(e).length === 0;
    return cut(plain ? trace(e).join('\n') : inspect(e)) + '\n';
  }

  function report(e) {
    const isError = isAnError(e);
    const name = isError ? String(e.name) : 'Error', value = cut(isError ? String(e.message) : inspect(e));
    const traceback = isError ? describe(e) : `${name}: ${value}\n`;
    const frames = [];
    for (const line of isError && typeof e.stack === 'string' ? trace(e) : []) {
      const m = /^\s+at (?:async )?(?:(.*?) \()?(.*?):(\d+):\d+\)?$/.exec(line) || /^()(<cell-\d+>):(\d+)$/.exec(line);
      if (!m || frames.length >= MOST_FRAMES) continue;
      const text = m[2].startsWith('<cell') ? (sources.get(m[2]) || '').split('\n')[m[3] - 1] || '' : '';
      frames.push({ file: m[2], line: Number(m[3]), function: m[1] || '', source: text.slice(0, 500) });
    }
    frames.reverse();
    result('error', { name, value, frames, traceback });
    if (now) told = now.number;
    try { process.stderr.write(traceback); } catch { /* closed */ }
  }
  const sources = new Map();

  function tellLate() {
    try { process.stderr.write(late); } catch { /* closed */ }
    late = '';
  }

  const words = 'async await break case catch class const continue debugger default delete do else export extends false finally for function if import in instanceof let new null of return static super switch this throw true try typeof undefined var void while with yield'.split(' ');
  function complete(code) {
    const word = /[\w$.]*$/.exec(code)[0], dot = word.lastIndexOf('.');
    let names = [];
    const base = dot < 0 ? 'globalThis' : word.slice(0, dot), stem = word.slice(dot + 1);
    if (/^[\w$]+(\.[\w$]+)*$/.test(base)) {
      session.post('Runtime.evaluate', { expression: base, silent: true }, (err, answer) => {
        if (err || answer.exceptionDetails) return;
        let o = take(answer.result);
        for (let depth = 0; o !== null && o !== undefined && depth < 20; depth++, o = Object.getPrototypeOf(Object(o))) {
          names.push(...Object.getOwnPropertyNames(Object(o)).filter((n) => /^[A-Za-z_$][\w$]*$/.test(n)));
        }
      });
      if (dot < 0) {
        session.post('Runtime.globalLexicalScopeNames', {}, (err, answer) => { if (!err) names.push(...answer.names); });
        names.push(...words);
      }
    }
    names = [...new Set(names)].filter((n) => n.startsWith(stem) && !/^__\w+__$/.test(n)).sort().slice(0, 200);
    result('completions', { word, matches: names.map((n) => word.slice(0, dot + 1) + n) });
  }

  // ended holds the number of the last answered request, and of the last request whose end is being reported; the gate reads them.
  const ended = new Int32Array(new SharedArrayBuffer(8));

  function begin(req) {
    if (req.number <= ended[0]) return; // interrupted before its start
    const size = fs.fstatSync(TEXT).size, text = Buffer.alloc(size);
    fs.readSync(TEXT, text, 0, size, 0);
    openStreams([req.stdin, req.stdout, req.stderr], () => {
      [id, now] = [req.id, req];
      send('open');
      setGlobals();
      if (req.op !== 'complete') return run(req, text.toString());
      try { complete(text.toString()); } catch { /* nothing follows */ }
      end(req, 0);
    });
  }

  function run(req, code) {
    if (late) tellLate();
    cell++;
    const name = `<cell-${cell}>`;
    sources.set(name, code);
    sources.delete(`<cell-${cell - 500}>`);
    evaluate(code, name, (value) => {
      if (now !== req) return; // interrupted
      if (value !== undefined) {
        give('_', value);
        const bare = skim(code, (part) => part, (text) => (/^\/[/*]/.test(text) ? '' : text));
        if (!/;\s*$/.test(bare)) result('value', { data: bounded(bundle(value)), count: cell });
      }
      finish(req, 0);
    }, (e) => {
      if (now !== req) return;
      let status = 1;
      Atomics.store(ended, 1, req.number);
      try {
        report(e);
        if (e instanceof KeyboardInterrupt) status = 130;
      } catch { // its name, its text or its stack throws
        try { report('an error that cannot be shown'); } catch { /* works() detects it */ }
      }
      told = req.number;
      finish(req, status);
    });
  }

  // works reports whether this program still works: cells share the built-in objects with it.
  function works() {
    try {
      let answer;
      session.post('Runtime.evaluate', { expression: '1' }, (_, given) => { answer = given; });
      return answer.result.value === 1 && JSON.stringify({ a: 'b' }) === '{"a":"b"}';
    } catch {
      return false;
    }
  }

  function end(req, status) {
    now = null;
    if (!works()) die();
    openStreams([devices, devices, devices], () => {
      send(String(status & 255));
      id = null;
      Atomics.store(ended, 0, req.number);
    });
  }

  // finish ends a request after Node has reported the cell's rejected promises.
  const finish = (req, status) => soon(() => { if (now === req) end(req, status); });

  // interrupt ends a request at any point. A report in progress may be incomplete.
  function interrupt(req) {
    if (req.number <= ended[0]) return;
    Atomics.store(ended, 1, req.number);
    [id, now] = [req.id, req];
    send('open', '\n');
    try { if (told !== req.number) report(interrupted()); } catch { /* a cell has broken what it needs */ }
    end(req, 130);
  }

  process.on('SIGINT', () => { if (now) interrupt(now); });
  // Work that a cell has left running may fail later. The variables stay, and the cell that runs then, or the next one, prints the error.
  for (const event of ['uncaughtException', 'unhandledRejection']) {
    process.on(event, (e) => {
      let text = 'an error that cannot be shown\n';
      try { text = describe(e); } catch { /* keep the default text */ }
      late = cut(`${late}Uncaught ${text}`);
      if (now) tellLate();
    });
  }

  // gate is the second thread. It forwards requests, and interrupts a cell in two ways: a message ends a cell that waits, and code that
  // keeps the main thread from that message is terminated. It continues when the cell has ended. The main thread has a second for its
  // report, because a terminated report would be sent twice. Only a kernel that a cell has broken takes longer.
  function gate() {
    const { parentPort, workerData } = require('worker_threads');
    const { Session } = require('inspector');
    const socket = new (require('net').Socket)({ fd: 98, readable: true, writable: false });
    const quit = () => process.kill(process.pid, 'SIGKILL');
    let last = { number: 0 }, turn = Promise.resolve(), data = '';
    const pause = (ms) => new Promise((ok) => setTimeout(ok, ms));
    const terminate = () => new Promise((ok) => {
      const main = new Session();
      main.connectToMainThread();
      main.post('Runtime.terminateExecution', () => { main.disconnect(); ok(); });
    });
    async function interrupt(req) {
      while (Atomics.load(workerData, 0) < req.number) {
        parentPort.postMessage({ ...req, op: 'interrupt' });
        await pause(20);
        for (let n = 0; n < 50 && Atomics.load(workerData, 1) === req.number && Atomics.load(workerData, 0) < req.number; n++) await pause(20);
        if (Atomics.load(workerData, 0) < req.number) await terminate();
      }
    }
    socket.on('data', (chunk) => {
      data += chunk;
      for (let at; (at = data.indexOf('\n')) >= 0; data = data.slice(at + 1)) {
        const req = JSON.parse(data.slice(0, at));
        turn = turn.then(() => {
          if (req.op === 'interrupt') return interrupt(last);
          last = { ...req, number: last.number + 1 };
          parentPort.postMessage(last);
        });
      }
    });
    socket.on('end', quit);
    socket.on('error', quit);
  }
  const worker = new Worker(`(${gate})()`, { eval: true, workerData: ended, stdin: false });
  worker.on('message', (req) => {
    if (req.op === 'interrupt') return interrupt(req);
    try {
      begin(req);
    } catch { // a cell has broken this program
      die();
    }
  });
  worker.on('error', die);
}
//# sourceURL=belljar:kernel
