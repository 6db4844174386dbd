// The baseline for comparisons: an HTML page of one line, and a WebSocket that echoes its input.
import { createHash } from "node:crypto";
import { createServer, type Server } from "node:http";
import type { AddressInfo, Socket } from "node:net";

const paragraph = "<!doctype html><title>bare</title><p>A page of one line.</p>";

// It shows each key after the echo.
const echo = `<!doctype html><title>bare</title><p class="keys"></p><script>
  const socket = new WebSocket("ws://" + location.host);
  const keys = document.querySelector(".keys");
  socket.onopen = () => { document.title = "open"; };
  socket.onmessage = ({ data }) => { keys.textContent += data; };
  document.addEventListener("keydown", ({ key }) => socket.send(key));
</script>`;

/** bare serves both: / and /echo. */
export async function bare(): Promise<{ url: string; close: () => Promise<void> }> {
  const sockets = new Set<Socket>();
  const server: Server = createServer((request, answer) => {
    answer.setHeader("Content-Type", "text/html; charset=utf-8");
    answer.end(request.url === "/echo" ? echo : paragraph);
  });
  server.on("upgrade", (request, socket: Socket) => {
    const accept = createHash("sha1").update(`${request.headers["sec-websocket-key"]}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest("base64");
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`);
    socket.setNoDelay(true);
    sockets.add(socket);
    socket.on("data", (frame: Buffer) => {
      // A masked text of less than 126 bytes: the head, four bytes of mask, the text.
      const size = frame[1]! & 0x7f;
      if ((frame[0]! & 0x0f) !== 1) return;
      const text = frame.subarray(6, 6 + size).map((byte, i) => byte ^ frame[2 + (i % 4)]!);
      socket.write(Buffer.concat([Buffer.from([0x81, size]), text]));
    });
    socket.on("error", () => {});
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: async () => {
      for (const socket of sockets) socket.destroy();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
