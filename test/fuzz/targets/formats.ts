/** Other formats from outside: MIME, policies and replies of mail servers. */
import assert from 'node:assert/strict';
import { ReplyParser } from '../../../src/mail/replies/smtp-reply.ts';
import { classifyReply } from '../../../src/mail/replies/classify.ts';
import { partsWithin, readMessage, partText } from '../../../src/mail/mime/reader.ts';
import { inspectMessage } from '../../../src/emails/inspection/inspect.ts';
import { relaxedBodyHash } from '../../../src/mail/dkim.ts';
import { parseStsPolicy, policyNames } from '../../../src/net/tls/mta-sts.ts';
import { type Format, targetOf } from './by-format.ts';
import { reportSamples } from './report-samples.ts';

const FORMATS: Record<'mime' | 'policy' | 'replies' | 'canonical', Format> = {
  mime: {
    samples: reportSamples,
    fragments: [
      'Content-Type: multipart/mixed; boundary=b\r\n',
      'Content-Type: message/rfc822\r\n',
      'Content-Transfer-Encoding: quoted-printable\r\n',
      'Content-Transfer-Encoding: base64\r\n',
      '\r\n\r\n',
      '\r\n--b\r\n',
      '\n--b',
      '--b--',
      '=41',
      '=\r\n',
      '= ',
      'AAAA',
    ],
    read: readsMime,
  },
  policy: {
    samples: () => [
      'version: STSv1\r\nmode: enforce\r\nmx: *.a.test\r\nmx: b.test\r\nmax_age: 86400\r\n',
    ],
    fragments: [
      'mode: ',
      'mx: ',
      'max_age: 1',
      'version: STSv1',
      ' ',
      '\t',
      ':',
      '\n',
      '*.',
      '-',
      'a.',
    ],
    read: readsPolicy,
  },
  replies: {
    samples: () => [
      '220 mx.test ESMTP\r\n250-mx.test\r\n250-SIZE 100\r\n250 STARTTLS\r\n550-5.1.1 no\r\n550 5.1.1 such user\r\n',
    ],
    fragments: [
      '250 ',
      '550-',
      '5.1.1 ',
      '\r\n',
      '\n',
      '421 try again',
      '\u00e2\u0080\u00ae',
      '999',
    ],
    read: readsReplies,
  },
  canonical: {
    samples: () => ['Hello  there \r\n\tx\r\n\r\n\r\n'],
    fragments: [' ', '\t', '\r\n', 'x', ' \r\n'],
    read: (bytes) => void relaxedBodyHash([Buffer.concat([bytes, Buffer.from('\r\n')])]),
  },
};
function readsMime(bytes: Buffer): void {
  let parts = 0;
  for (const part of partsWithin(readMessage(bytes))) {
    parts += 1;
    if (part.parts.length === 0) partText(part);
  }
  assert.ok(parts <= 300);
  assert.ok(inspectMessage(bytes).attachments.length <= 300);
}

function readsPolicy(bytes: Buffer): void {
  const parsed = parseStsPolicy(bytes.toString());
  if ('problem' in parsed) return;
  assert.ok(parsed.policy.mx.length <= 200 && parsed.policy.maxAgeS >= 300);
  policyNames(parsed.policy, 'mx.a.test');
}

/** Asserts that replies do not depend on the pieces in which they arrive. */
function readsReplies(bytes: Buffer): void {
  const whole = new ReplyParser().push(bytes);
  const parser = new ReplyParser();
  const replies = [...parser.push(bytes.subarray(0, bytes.length >> 1)).replies];
  const last = parser.push(bytes.subarray(bytes.length >> 1));
  assert.deepEqual([...replies, ...last.replies], whole.replies);
  assert.equal(last.error, whole.error);
  for (const reply of whole.replies) {
    assert.ok(Buffer.byteLength(reply.message) <= 2_048 && reply.message.isWellFormed());
    if (reply.code >= 400) classifyReply({ phase: 'rcpt', reply });
  }
}

export const formats = targetOf(
  {
    name: 'formats',
    about: 'MIME, policies of MTA-STS, replies of mail servers, bodies to sign',
  },
  FORMATS,
);
