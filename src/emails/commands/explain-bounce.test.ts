/** `letterhaus explain bounce` with several files. */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { letterhaus } from '../../../test/support/letterhaus.ts';

const BOUNCE = `From: MAILER-DAEMON@mx.test\n\nUndeliverable:\n\n<jo@receiver.test>:\n550 5.1.1 No such user\n`;

test('explain bounce explains the files in order, and continues after an unreadable one', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'explain-'));
  try {
    const bounce = join(folder, 'bounce.eml');
    const letter = join(folder, 'letter.eml');
    await writeFile(bounce, BOUNCE);
    await writeFile(letter, 'Subject: Hello\n\nHow are you?\n');

    const json = await letterhaus(['explain', 'bounce', '--json', bounce, letter], {});
    assert.equal(json.code, 0, json.stderr);
    const explained = json.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    assert.deepEqual(explained, [
      {
        file: bounce,
        kind: 'bounce',
        recipients: [
          {
            recipient: 'jo@receiver.test',
            kind: 'bounce',
            status: '5.1.1',
            code: 550,
            category: 'mailbox',
            permanent: true,
            suppress: true,
            diagnostic: '550 5.1.1 No such user',
          },
        ],
      },
      { file: letter, kind: 'other', recipients: [] },
    ]);

    const missing = await letterhaus(['explain', 'bounce', join(folder, 'gone'), bounce], {});
    assert.equal(missing.code, 1);
    assert.match(missing.stderr, /^letterhaus: .*gone cannot be read: ENOENT/);
    assert.match(missing.stdout, /^kind +bounce: .*\n\nrecipient +jo@receiver\.test\n/m);
  } finally {
    await rm(folder, { recursive: true });
  }
});
