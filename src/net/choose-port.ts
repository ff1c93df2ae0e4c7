/**
 * Which port to listen on. The default one gives way when it is taken; one that was asked for does
 * not: whoever asked has told it to somebody else.
 */
import { createServer } from 'node:net';

/** How far from the default port to look; beyond, something is wrong with the machine. */
const TRIES = 100;

export type ChosenPort = { port: number } | { problem: string };

/**
 * Finds a port that can be listened on now: `port`, or the next free one when it was not asked for;
 * any when it is 0. It is free when this returns, nobody holds it.
 */
export async function choosePort(options: {
  host: string;
  port: number;
  portAsked: boolean;
}): Promise<ChosenPort> {
  const { host, port, portAsked } = options;
  const last = portAsked ? port : Math.min(port + TRIES, 65_535);
  let refused = 'EADDRINUSE';
  for (let candidate = port; candidate <= last && refused === 'EADDRINUSE'; candidate += 1) {
    const found = await tryPort(host, candidate);
    if (typeof found === 'number') return { port: found };
    refused = found;
  }
  return { problem: explain(refused, options) };
}

/** @returns the port, or the code of the error */
function tryPort(host: string, port: number): Promise<number | string> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    server.listen({ host, port, exclusive: true }, () => {
      const address = server.address();
      const found = typeof address === 'object' && address !== null ? address.port : port;
      server.close(() => resolve(found));
    });
  });
}

function explain(code: string, { host, port }: { host: string; port: number }): string {
  switch (code) {
    case 'EADDRINUSE':
      return `PORT: port ${port} is taken by another program; stop it or choose another port.`;
    case 'EACCES':
      return `PORT: this user may not listen on port ${port}; choose one above 1023.`;
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return `HOST: ${host} is not an address of this machine; use 127.0.0.1, or 0.0.0.0 for all.`;
    default:
      return `HOST, PORT: cannot listen on ${host} port ${port} (${code}); choose others.`;
  }
}
