/** The reader of the tar files of base backups: archives in chunks of any size, and hostile ones. */
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryFolder } from '../../../test/support/embedded.ts';
import { extractTar } from './tar.ts';

type Given = { name: string; content?: string; type?: string; prefix?: string };

function entry({ name, content = '', type = '0', prefix = '' }: Given): Buffer {
  const head = Buffer.alloc(512);
  head.write(name, 0, 'latin1');
  head.write(`${Buffer.byteLength(content).toString(8).padStart(11, '0')}\0`, 124, 'latin1');
  head.write(' '.repeat(8), 148, 'latin1');
  head.write(type, 156, 'latin1');
  head.write(prefix, 345, 'latin1');
  const sum = head.reduce((total, byte) => total + byte, 0);
  head.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  const body = Buffer.from(content);
  return Buffer.concat([head, body, Buffer.alloc((512 - (body.length % 512)) % 512)]);
}

async function* chunksOf(bytes: Buffer, size: number): AsyncGenerator<Buffer> {
  for (let from = 0; from < bytes.length; from += size) yield bytes.subarray(from, from + size);
}

test('files and folders are written from chunks of any size', async () => {
  const archive = Buffer.concat([
    entry({ name: 'backup_label', content: 'a'.repeat(700) }),
    entry({ name: 'pg_wal', type: '5' }),
    entry({ name: '1249', prefix: 'base/5', content: 'b'.repeat(512) }),
    entry({ name: 'empty' }),
    Buffer.alloc(1024),
  ]);
  for (const size of [1, 511, 4096]) {
    const folder = join(temporaryFolder(), 'cluster');
    mkdirSync(folder);
    await extractTar(chunksOf(archive, size), folder);
    assert.equal(readFileSync(join(folder, 'backup_label'), 'utf8'), 'a'.repeat(700));
    assert.equal(readFileSync(join(folder, 'base/5/1249'), 'utf8'), 'b'.repeat(512));
    assert.equal(readFileSync(join(folder, 'empty'), 'utf8'), '');
    assert.ok(statSync(join(folder, 'pg_wal')).isDirectory());
  }
});

test('names outside the folder, links, changed and truncated archives are refused', async () => {
  const good = entry({ name: 'file', content: 'content' });
  const changed = Buffer.from(good);
  changed[0] = changed[0]! ^ 1;
  const refused = [
    entry({ name: '/etc/passwd', content: 'x' }),
    entry({ name: '../x', content: 'x' }),
    entry({ name: 'x', prefix: 'base/..', content: 'x' }),
    entry({ name: 'link', type: '2' }),
    changed,
    good.subarray(0, 515),
    good.subarray(0, 100),
  ];
  for (const archive of refused) {
    const folder = temporaryFolder();
    await assert.rejects(extractTar(chunksOf(archive, 4096), folder), { name: 'BackupDamaged' });
  }
});
