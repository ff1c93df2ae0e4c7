/** Suppression lists of other services, by HTTP and by command line. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { assertFailure } from '../support/api.ts';
import type { ApiResponse } from '../support/api-client.ts';
import { temporaryFolder } from '../support/embedded.ts';
import { sharedService } from '../support/shared-service.ts';

const service = await sharedService();

type Body = ApiResponse['body'];

const PATH = '/v1/suppressions';
const JSON_TYPE = { 'content-type': 'application/json' };
const CSV = { 'content-type': 'text/csv' };

/** The key of a project of its own: an empty list. */
const newKey = async (): Promise<string> => (await service.otherProject()).testKey;

const post = (key: string, body: string, { query = '', headers = CSV } = {}) =>
  service.request('POST', `${PATH}/import${query}`, { key, headers, body });

async function listOf(key: string): Promise<[string, string, string][]> {
  const { data } = (await service.request('GET', PATH, { key })).body;
  return data.map(({ address, reason, created_at }: Body) => [address, reason, created_at]);
}

const ROWS = 5_000;

function postmarkDump(): string {
  const reasons = ['HardBounce', 'SpamComplaint', 'ManualSuppression'];
  const entries = Array.from({ length: ROWS }, (_, n) => ({
    EmailAddress: `user${n}@customers.test`,
    SuppressionReason: reasons[n % 3],
    Origin: 'Recipient',
    CreatedAt: '2025-06-01T00:00:00-05:00',
  }));
  return JSON.stringify({ Suppressions: entries });
}

test('a dump of Postmark is imported as JSON with its reasons and times', async () => {
  const key = await newKey();
  const result = await post(key, postmarkDump(), { headers: JSON_TYPE });
  const done = {
    object: 'suppression_import',
    format: 'postmark',
    rejected: 0,
    left_out: [],
    errors: [],
  };
  assert.deepEqual([result.status, result.body], [200, { ...done, added: ROWS, already_there: 0 }]);
  assert.deepEqual((await listOf(key)).slice(0, 2), [
    ['user0@customers.test', 'hard_bounce', '2025-06-01T05:00:00.000Z'],
    ['user1000@customers.test', 'complaint', '2025-06-01T05:00:00.000Z'],
  ]);
  const again = await post(key, postmarkDump());
  assert.deepEqual(again.body, { ...done, added: 0, already_there: ROWS });
});

test('the response names the recognised list, and the entries left out with line and reason', async () => {
  const key = await newKey();
  const file = [
    'email,created,reason,status',
    'ann@acme.test,1443651125,550 5.1.1 No such user,5.1.1',
    'ben@acme.test,1443651125,550 5.7.1 Message rejected as spam,5.7.1',
    'cara@acme.test,1443651125,550 5.1.2 Domain does not exist,5.1.2',
    'dan@,1443651125,550 5.1.1 No such user,5.1.1',
    'eva@acme.test,1443651125,452 4.2.2 Mailbox full,4.2.2',
  ].join('\n');
  const { status, body } = await post(key, file);
  assert.equal(status, 200);
  const { left_out: leftOut, errors, ...counts } = body;
  assert.deepEqual(counts, {
    object: 'suppression_import',
    format: 'sendgrid',
    added: 1,
    already_there: 0,
    rejected: 1,
  });
  assert.deepEqual(
    leftOut.map(({ because, rows, first_line: line }: Body) => [because, rows, line]),
    [
      ['not_permanent', 2, 3],
      ['expired', 1, 4],
    ],
  );
  assert.deepEqual([errors[0].line, errors[0].item], [5, null]);
  assert.deepEqual(await listOf(key), [
    ['ann@acme.test', 'hard_bounce', '2015-09-30T22:12:05.000Z'],
  ]);
});

test('entries of a JSON file that are invalid are reported with line and position', async () => {
  const key = await newKey();
  const long = `{"EmailAddress":"${'x'.repeat(20_000)}","Reason":"BOUNCE"}`;
  const file = `{"SuppressedDestinationSummaries":[{"EmailAddress":"ann@acme.test","Reason":"BOUNCE"},
{"EmailAddress":"ben@","Reason":"BOUNCE"}, ${long}, {"EmailAddress":"cara@acme.test","Reason":"OTHER"},
7,{"EmailAddress":"dan@acme.test","Reason":"COMPLAINT"}]}`;
  const { body } = await post(key, file, { headers: JSON_TYPE });
  assert.deepEqual([body.format, body.added, body.rejected], ['amazon_ses', 2, 4]);
  assert.deepEqual(
    body.errors.map(({ line, item }: Body) => [line, item]),
    [
      [2, 2],
      [2, 3],
      [2, 4],
      [3, 5],
    ],
  );
  assert.match(body.errors[1].message, /longer than 16 KB/);
  assert.match(body.errors[2].message, /"OTHER" is not one of BOUNCE, COMPLAINT/);
});

test('a list that may be complaints or unsubscribes is refused until the reason is given', async () => {
  const key = await newKey();
  const file = 'email,created\nann@acme.test,1443651125\n';
  assertFailure(
    await post(key, file),
    422,
    'validation_error',
    /\?reason=complaint or \?reason=uns/,
  );
  assert.deepEqual(await listOf(key), []);
  const wrong = await post(key, file, { query: '?reason=boring' });
  assertFailure(wrong, 422, 'validation_error', /reason/);
  assert.equal((await post(key, file, { query: '?reason=complaint' })).body.added, 1);
  assert.deepEqual((await listOf(key))[0]?.slice(0, 2), ['ann@acme.test', 'complaint']);
});

test('a hostile or unknown file is refused with a sentence and changes nothing', async () => {
  const key = await newKey();
  const entry = '{"email":"ann@acme.test","origin":"bounce"}';
  const files: [string, RegExp][] = [
    ['Name;Birthday\nAnn;1990-01-01\n', /not a known list of suppressions.*Resend, Postmark/],
    ['{"Message":"Unauthorized"}', /Resend, Postmark, SendGrid, Mailgun, Amazon SES/],
    [`{"data":[${entry}`, /ends in line 1 before it is complete/],
    [`{"data":[${entry},]}`, /Line 1 is not JSON/],
    [`[${entry},${'['.repeat(300_000)}`, /before it is complete/],
    [`[${entry},"${'x'.repeat(3_000_000)}`, /before it is complete/],
    [`[${entry},${'9'.repeat(100_000)}]`, /is not JSON/],
    ['email\nann\0@acme.test\n', /NUL/],
  ];
  for (const [file, why] of files) {
    for (const headers of [CSV, JSON_TYPE]) {
      assertFailure(await post(key, file, { headers }), 422, 'validation_error', why);
    }
  }
  assert.deepEqual(await listOf(key), []);
});

test('the import of a broken file reports the rows that it stored, and the whole file adds the rest', async () => {
  const key = await newKey();
  const whole = postmarkDump();
  const broken = await post(key, whole.slice(0, whole.length - 400));
  assertFailure(broken, 422, 'validation_error', /complete\. [24]000 addresses were added before/);
  const { added, already_there: alreadyThere } = (await post(key, whole)).body;
  assert.equal(added + alreadyThere, ROWS);
  assert.ok(alreadyThere >= 2_000);
});

test('the command line imports the lists of other services', async () => {
  const file = join(temporaryFolder(), 'list');
  const run = (content: string, ...options: string[]) => {
    writeFileSync(file, content);
    return service.cli('suppressions', 'import', file, ...options, '--environment', 'test');
  };
  const dump = await run(
    '[{"created":1443651125,"email":"ann@acme.test","reason":"550 5.1.1 No such user","status":"5.1.1"},' +
      '{"created":1443651125,"email":"ben@acme.test","reason":"550 5.7.1 spam","status":"5.7.1"}]',
  );
  assert.equal(dump.code, 0, dump.stderr);
  assert.match(dump.stdout, /^1 left out, the first in line 1: The reply of the mail server/);
  assert.match(
    dump.stdout,
    /1 added, 0 already present, 0 rejected, 1 left out\. .* SendGrid\.\n$/,
  );
  const either = 'address,created_at\ncara@acme.test,"Tue, 07 Jan 2025 19:25:45 UTC"\n';
  const refused = await run(either);
  assert.equal(refused.code, 2);
  assert.match(refused.stderr, /Mailgun .* --reason complaint or --reason unsubscribe\./);
  const given = await run(either, '--reason', 'complaint');
  assert.match(given.stdout, /^1 added, .* Mailgun\.\n$/);
  const unknown = await run('{"Message":"Unauthorized"}');
  assert.deepEqual([unknown.code, /Postmark/.test(unknown.stderr)], [2, true]);
});
