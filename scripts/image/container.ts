/** Runs an image as deploy/docker/compose.yml does, and checks what a container must do. */
import assert from 'node:assert/strict';
import { spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, mkdirSync, readFileSync } from 'node:fs';
import { waitFor } from '../../test/support/wait.ts';
import type { Image } from './build.ts';
import { pidInside, runBeside, runInside, startInside, type Inside } from './root-folder.ts';

/** A start on a busy machine that creates its database. */
const READY_WITHIN_MS = 180_000;
/** As in compose.yml, but without a look-up. */
const SETTINGS = {
  LETTERHAUS_HOSTNAME: 'mail.example.com',
  LETTERHAUS_INBOUND_PORT: '2525',
  LETTERHAUS_SUBMISSION_PORTS: '2587',
};
const SEND =
  'letterhaus send --json --from hello@acme.test --to delivered@simulator.test --subject Hi --text Hi';

/** @param volume a folder that does not exist yet, for the first volume of the image */
export async function checkContainer(image: Image, volume: string): Promise<void> {
  mkdirSync(volume, { mode: 0o700 });
  chownSync(volume, image.user.uid, image.user.gid);
  const { workdir, user, root } = image;
  const sealed = { volumes: { [image.volumes[0]!]: volume } };
  const inside: Inside = { root, workdir, env: { ...image.env, ...SETTINGS }, user, sealed };
  await assert.rejects(
    runInside(inside, image.commands.healthcheck),
    'unhealthy without a service',
  );

  const first = await startContainer(image, inside);
  checkProcesses(first, image);
  first.run(image.commands.healthcheck);
  const { id } = JSON.parse(first.run(SEND.split(' '))) as { id: string };
  const isDelivered = () => first.run(['letterhaus', 'emails', 'show', id]).includes('delivered');
  await waitFor(isDelivered, { what: 'the email to be delivered' });
  await first.stop();

  const second = await startContainer(image, inside);
  assert.match(second.run(['letterhaus', 'emails', 'show', id]), /delivered/, 'the volume has it');
  await second.stop();
  report(image, first, second);
}

type Container = {
  pid: number;
  readyMs: number;
  /** As `docker exec`; throws when the command fails. */
  run: (command: readonly string[]) => string;
  stop: () => Promise<void>;
};

async function startContainer(image: Image, inside: Inside): Promise<Container> {
  const startedAtMs = performance.now();
  const child = startInside(inside, [...image.commands.entrypoint, ...image.commands.command]);
  const output = outputOf(child);
  const closed = once(child, 'close') as Promise<[number | null]>;
  const isReady = () => {
    if (child.exitCode !== null) throw new Error(`The container has ended:\n${output.join('')}`);
    return /Letterhaus is ready|ready at/.test(output.join(''));
  };
  await waitFor(isReady, { what: 'the container to be ready', timeoutMs: READY_WITHIN_MS });
  const readyMs = performance.now() - startedAtMs;
  const pid = pidInside(child)!;
  return {
    pid,
    readyMs,
    run: (command) => {
      const { status, stdout, stderr } = runBeside(pid, inside, command);
      assert.equal(status, 0, `${command.join(' ')}\n${stdout}${stderr}`);
      return stdout;
    },
    stop: async () => {
      process.kill(pid, 'SIGTERM');
      assert.equal((await closed)[0], 0, output.join(''));
    },
  };
}

function outputOf(child: ChildProcess): string[] {
  const output: string[] = [];
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding('utf8').on('data', (text: string) => output.push(text));
  return output;
}

/** No process is root's, has a capability, or may get one. */
function checkProcesses({ pid }: Container, { user }: Image): void {
  const family = spawnSync('pgrep', ['--ns', `${pid}`, '--nslist', 'pid', '.'], {
    encoding: 'utf8',
  });
  const pids = family.stdout.trim().split('\n');
  assert.ok(pids.length > 5, 'supervisor, workers and PostgreSQL');
  for (const each of pids) {
    const status = readFileSync(`/proc/${each}/status`, 'utf8');
    assert.match(status, new RegExp(`^Uid:\\t${user.uid}\\t${user.uid}\\t`, 'm'));
    assert.match(status, /^CapEff:\t0+$/m);
    assert.match(status, /^NoNewPrivs:\t1$/m);
  }
}

function report({ root }: Image, first: Container, second: Container): void {
  const size = spawnSync('du', ['-sm', '--apparent-size', root], { encoding: 'utf8' }).stdout;
  const seconds = (ms: number) => (ms / 1000).toFixed(1);
  process.stdout.write(
    `\nIt works: ${parseInt(size)} MB with Debian, ready in ${seconds(first.readyMs)} s with a new ` +
      `volume and in ${seconds(second.readyMs)} s with an existing one.\n`,
  );
}
