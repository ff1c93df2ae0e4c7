/** An address that answers no SYN: the listening socket of a stopped process with a full queue. Linux only. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

const LISTEN = `
  const [host, port] = process.argv.slice(1);
  require('node:net').createServer().listen({ host, port, backlog: 1 }, () => console.log('ready'));`;
/** The kernel accepts one more than the backlog. Connections without an answer by then are in the black hole. */
const ANSWERED_WITHIN_MS = 500;

export async function startBlackHole(address: string, port: number): Promise<AsyncDisposable> {
  const child = spawn(process.execPath, ['-e', LISTEN, address, String(port)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const end = (): void => void child.kill('SIGKILL');
  process.once('exit', end);
  await once(child.stdout, 'data');
  child.kill('SIGSTOP');
  const sockets: Socket[] = [];
  const isAnswered = async (): Promise<boolean> => {
    const socket = connect({ host: address, port }).on('error', () => {});
    sockets.push(socket);
    const connected = once(socket, 'connect').then(() => true);
    return Promise.race([connected, delay(ANSWERED_WITHIN_MS, false)]);
  };
  while (await isAnswered());
  return {
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      process.off('exit', end);
      if (child.exitCode !== null) return;
      const exited = once(child, 'exit');
      end();
      await exited;
    },
  };
}
