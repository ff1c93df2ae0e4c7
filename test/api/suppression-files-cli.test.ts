/** `letterhaus suppressions import` and `export` with long files, and with a service elsewhere. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { temporaryFolder } from '../support/embedded.ts';
import { startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

const service = await startService({ args: ['--workers', '1'] });
after(() => service[Symbol.asyncDispose]());

const folder = temporaryFolder();
const run = (command: string, ...args: string[]) =>
  service.cli('suppressions', command, ...args, '--project', 'Acme');
const countOf = async (domain: string): Promise<number> => {
  const sql = `select count(*)::int as count from suppressions where address like '%@' || $1`;
  return (await service.sql(sql, [domain]))[0].count;
};

function fileOf(domain: string, rows: number, note = ''): string {
  const file = join(folder, `${domain}.csv`);
  const lines = Array.from({ length: rows }, (_, n) => `user${n}@${domain},${note}\n`);
  writeFileSync(file, `address,note\n${lines.join('')}`);
  return file;
}

/** Forwards the first bytes of a connection, and cuts it on request. */
async function proxyUntil(bytesMax: number) {
  const sockets: Socket[] = [];
  const { hostname, port } = new URL(service.url);
  const server = createServer((client) => {
    const upstream = connect(Number(port), hostname);
    sockets.push(client, upstream);
    for (const socket of [client, upstream]) socket.on('error', () => {});
    upstream.pipe(client);
    let bytes = 0;
    client.on('data', (piece: Buffer) => {
      if (bytes < bytesMax) upstream.write(piece.subarray(0, bytesMax - bytes));
      bytes += piece.length;
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const cut = (): void => {
    server.close();
    for (const socket of sockets) socket.destroy();
  };
  return { url, cut };
}

test('an interrupted import reports it and keeps its stored entries, and the next one adds the rest', async () => {
  const file = fileOf('halves.test', 8_000);
  const proxy = await proxyUntil(readFileSync(file).length / 2);
  const elsewhere = ['--url', proxy.url, '--key', service.testKey, '--json'];
  const running = service.cli('suppressions', 'import', file, ...elsewhere);
  const isStored = async () => (await countOf('halves.test')) >= 2_000;
  await waitFor(isStored, { what: 'the first batch', timeoutMs: 60_000 });
  proxy.cut();
  const { code, stdout, stderr } = await running;
  assert.deepEqual([code, stdout], [1, '']);
  const { error } = JSON.parse(stderr);
  assert.equal(error.code, 'service_unavailable');
  assert.match(error.message, /was interrupted \(.+\)\. Stored entries stay\. Import/);

  const again = await run('import', file, '--environment', 'test', '--json');
  const { added, already_there: present } = JSON.parse(again.stdout);
  assert.equal(added + present, 8_000);
  assert.ok(present >= 2_000);
  assert.equal(await countOf('halves.test'), 8_000);
});

test('a long import shows its progress, and the list of a service elsewhere is exported', async () => {
  const file = fileOf('wide.test', 1_000, 'x'.repeat(12_000));
  const elsewhere = ['--url', service.url, '--key', await service.liveKey()];
  const imported = await service.cli('suppressions', 'import', file, ...elsewhere);
  assert.equal(imported.code, 0, imported.stderr);
  assert.match(imported.stderr, /^5 of 13 MB sent\.\.\.\n10 of 13 MB sent\.\.\.\n$/);
  assert.match(imported.stdout, /^1000 added, 0 already present, 0 rejected\.\n$/);
  const written = join(folder, 'written.csv');
  const exported = await service.cli('suppressions', 'export', written, ...elsewhere);
  assert.equal(exported.stdout, `1000 addresses written to ${written}.\n`);
  assert.match(readFileSync(written, 'utf8'), /^address,reason,.*\r\nuser0@wide\.test,manual,/);
  const piped = await run('export');
  assert.deepEqual([piped.code, piped.stdout], [0, readFileSync(written, 'utf8')]);
  const [listed] = (await service.cliJson('suppressions', 'list', ...elsewhere)).data;
  assert.deepEqual([listed.address, listed.environment], ['user0@wide.test', 'live']);
});

test('a file that is refused or cannot be read ends with exit code 2, and changes no file', async () => {
  const broken = join(folder, 'broken.csv');
  writeFileSync(broken, `email\nann\0@acme.test\n${'ben@acme.test\n'.repeat(1_500_000)}`);
  const refused = await run('import', broken);
  assert.equal(refused.code, 2, refused.stdout);
  assert.match(refused.stderr, /broken\.csv: The file cannot be read: it has NUL bytes/);
  const unreadable = await run('import', folder, '--json');
  assert.equal(unreadable.code, 2);
  assert.match(JSON.parse(unreadable.stderr).error.message, /cannot be used: EISDIR/);
  const kept = join(folder, 'kept.csv');
  writeFileSync(kept, 'earlier');
  const unknown = await service.cli('suppressions', 'export', kept, '--project', 'nothing');
  assert.equal(unknown.code, 2);
  assert.equal(readFileSync(kept, 'utf8'), 'earlier');
});

test('the audit log has the changes by the command line', async () => {
  await run('add', 'ann@audited.test');
  await run('remove', 'ann@audited.test');
  const { data } = await service.cliJson('audit');
  const command = { type: 'command', id: null, name: null, member_name: null };
  assert.deepEqual(
    data.slice(0, 2).map(({ action, actor }: Record<string, unknown>) => [action, actor]),
    [
      ['deleteSuppression', command],
      ['createSuppression', command],
    ],
  );
});
