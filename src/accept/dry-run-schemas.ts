/** Schemas of dry runs. Also the schemas of DNS findings (core/findings.ts), which diagnoses share. */
import { z } from 'zod';
import { LINT_CODES } from '../mail/html/lint.ts';
import { SUPPRESSION_REASONS } from '../suppressions/suppression-store.ts';
import { doc, idSchema, time } from '../http/schemas.ts';
import { acceptedEmail } from '../emails/schemas.ts';

export const sendQuery = z.strictObject({
  dry_run: doc(
    z.enum(['true', 'false']).default('false'),
    '`true`: nothing is stored, counted or sent, and the response describes what would happen.',
  ),
});

/** Refuses `?dry_run`, which a batch does not support. Ignoring it would send the batch. */
export const noQuery = z.strictObject({});

const problem = doc(
  z.string().nullable(),
  'One sentence: the problem, or why the result is unknown; null: none.',
);
const verdict = doc(
  z.enum(['pass', 'fail', 'unknown']),
  '`unknown`: DNS did not answer; `problem` has the reason.',
);
const aligned = z.boolean().describe('For DMARC, the domain is aligned with the domain of `from`.');

export const authentication = {
  dkim: doc(
    z.array(
      z.object({
        domain: z.string(),
        selector: z.string(),
        algorithm: z.enum(['rsa-sha256', 'ed25519-sha256']),
        verdict,
        aligned,
        problem,
      }),
    ),
    'One for each signature of the message.',
  ),
  spf: z.object({
    domain: z.string().describe('The domain of the return path.'),
    verdict,
    aligned,
    problem,
  }),
  dmarc: z.object({
    domain: z.string().nullable().describe('The domain whose record applies.'),
    policy: z.enum(['none', 'quarantine', 'reject']).nullable(),
    verdict: doc(z.enum(['pass', 'fail', 'none', 'unknown']), '`none`: there is no valid record.'),
    problem,
  }),
};

export const route = z
  .object({
    verdict: doc(
      z.enum(['found', 'none', 'unknown']),
      '`none`: the domain cannot be sent to. `unknown`: DNS did not answer.',
    ),
    provider: doc(z.string().nullable(), 'The provider whose limits apply.', 'google'),
    mx: doc(
      z.array(
        z.object({
          host: z.string(),
          preference: z.number().int(),
          addresses: z.array(z.string()),
          tls: z.object({
            mode: z.string().meta({
              description: '`barred`: nothing is sent to this server; `none`: the simulator.',
              examples: ['opportunistic', 'required', 'enforced', 'dane', 'barred', 'none'],
            }),
            policy: z.string().meta({
              description: 'The TLS rule that applies.',
              examples: ['none', 'provider', 'enforced', 'mta-sts-testing', 'mta-sts', 'dane'],
            }),
            problem,
          }),
        }),
      ),
      'The mail servers, in the order in which they are tried.',
    ),
    problem,
  })
  .meta({ id: 'MailRoute' });

const recipient = z.object({
  address: z.string(),
  kind: z.enum(['to', 'cc', 'bcc']),
  outcome: z.enum(['attempt', 'suppressed']),
  suppression: z
    .object({
      reason: z.enum(SUPPRESSION_REASONS),
      expires_at: time('When it expires; null: never.').nullable(),
    })
    .nullable(),
  route: route.nullable().describe('null: suppressed.'),
});

export const dryRun = z
  .object({
    object: z.literal('dry_run'),
    outcome: doc(
      z.enum(['send', 'schedule', 'hold', 'replay']),
      '`hold`: the sending domain is paused. `replay`: the Idempotency-Key was used for the same ' +
        'email, and nothing would be sent.',
    ),
    replay_of: idSchema('The email that was sent with the Idempotency-Key.').nullable(),
    scheduled_at: time('When it would be sent; null: at once.').nullable(),
    limit: z.object({
      counts: z.enum(['emails', 'recipients']),
      limit: z.number().int(),
      remaining: z.number().int().describe('Without this email, which is not counted.'),
      reset: z.number().int().describe('Seconds until the window ends.'),
      window: z.number().int().describe('Seconds.'),
    }),
    tracking: doc(
      z.object({ opens: z.boolean(), clicks: z.boolean() }).nullable(),
      'The tracking that would apply, of the email or its domain; null for a replay.',
    ),
    message: doc(
      z
        .object({
          size: z.number().int().describe('Bytes on the wire, with all signatures.'),
          headers: doc(
            z.array(z.object({ name: z.string(), value: z.string() })),
            'As they would be sent, in order, without folds.',
          ),
        })
        .nullable(),
      'null for a replay, like `sender`.',
    ),
    sender: z.object({ domain: z.string(), ...authentication }).nullable(),
    recipients: z.array(recipient),
    lint: doc(
      z.array(
        z.object({
          code: z.enum(LINT_CODES).describe('A stable code.'),
          message: z.string().describe('One sentence: the likely problem.'),
        }),
      ),
      'Advice; the email is accepted nevertheless.',
    ),
  })
  .meta({ id: 'DryRun' });

/** The 200 of POST /v1/emails: `object` says whether it is an email or a dry run. */
export const firstAnswerOrDryRun = z.discriminatedUnion('object', [acceptedEmail, dryRun]).meta({
  id: 'AcceptedEmailOrDryRun',
  discriminator: {
    propertyName: 'object',
    mapping: {
      email: '#/components/schemas/AcceptedEmail',
      dry_run: '#/components/schemas/DryRun',
    },
  },
});
