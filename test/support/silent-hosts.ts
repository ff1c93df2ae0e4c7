/** Mail servers that accept connections and never send a byte. Anybody can run them, with a DNS zone. */
import { createServer, type Server, type Socket } from 'node:net';

export type SilentHosts = AsyncDisposable & {
  readonly addresses: readonly string[];
  readonly open: number;
};

const HOSTS_OF_A_NETWORK = 250;

/** @param port the port of mail servers in the test */
export async function startSilentHosts(count: number, port: number): Promise<SilentHosts> {
  const sockets = new Set<Socket>();
  const addresses = Array.from({ length: count }, (_, index) => addressOf(index));
  const servers = await Promise.all(addresses.map((host) => listen(host, port, sockets)));
  return {
    addresses,
    get open() {
      return sockets.size;
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await Promise.all(servers.map((server) => new Promise((done) => server.close(done))));
    },
  };
}

function addressOf(index: number): string {
  const network = Math.floor(index / HOSTS_OF_A_NETWORK);
  return `127.77.${network}.${1 + (index % HOSTS_OF_A_NETWORK)}`;
}

async function listen(host: string, port: number, sockets: Set<Socket>): Promise<Server> {
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {}).on('close', () => sockets.delete(socket));
    socket.resume();
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen({ host, port }, resolve);
  });
  return server;
}
