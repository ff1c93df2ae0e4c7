/** Schemas of dry runs. Also the schemas of DNS findings (core/dns/dns-findings.ts), which diagnoses share. */
import { z } from 'zod';
import { LINT_CODES } from '../../mail/html/lint-email.ts';
import { SUPPRESSION_REASONS } from '../../suppressions/suppression-store.ts';
import { doc, idSchema, time } from '../../http/schemas.ts';
import { acceptedEmail } from '../../emails/schemas.ts';

export const sendQuery = z.strictObject({
  dry_run: doc(
    z.enum(['true', 'false']).default('false'),
    'With `true`, nothing is stored, counted or sent. The response predicts the outcome.',
  ),
});

/** Refuses `?dry_run`, which a batch does not support. Ignoring it would send the batch. */
export const noQuery = z.strictObject({});

const problem = doc(
  z.string().nullable(),
  'One sentence about the problem or the unknown result, or null without a problem.',
);
const verdict = doc(
  z.enum(['pass', 'fail', 'unknown']),
  'Result of the check. `unknown`: DNS did not answer, and `problem` has the reason.',
);
const aligned = z
  .boolean()
  .describe('True when the domain is aligned with the domain of `from` for DMARC.');

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
    'One entry for each signature of the message.',
  ),
  spf: z.object({
    domain: z.string().describe('Domain of the return path.'),
    verdict,
    aligned,
    problem,
  }),
  dmarc: z.object({
    domain: z
      .string()
      .nullable()
      .describe('Domain whose DMARC record applies, or null without a valid record.'),
    policy: z.enum(['none', 'quarantine', 'reject']).nullable(),
    verdict: doc(
      z.enum(['pass', 'fail', 'none', 'unknown']),
      'Result of the check. `none`: DNS has no valid record. `unknown`: DNS did not answer.',
    ),
    problem,
  }),
};

export const mailRoute = z
  .object({
    verdict: doc(
      z.enum(['found', 'none', 'unknown']),
      'Result of the look-up. `none`: the domain accepts no mail. `unknown`: DNS did not answer.',
    ),
    provider: doc(z.string().nullable(), 'Provider whose limits apply.', 'google'),
    mx: doc(
      z.array(
        z.object({
          host: z.string(),
          preference: z.number().int(),
          addresses: z.array(z.string()),
          tls: z.object({
            mode: z.string().meta({
              description:
                'TLS mode. `barred`: nothing is sent to this server. `none`: the server is the simulator.',
              examples: ['opportunistic', 'required', 'enforced', 'dane', 'barred', 'none'],
            }),
            policy: z.string().meta({
              description: 'TLS rule that applies.',
              examples: ['none', 'provider', 'enforced', 'mta-sts-testing', 'mta-sts', 'dane'],
            }),
            problem,
          }),
        }),
      ),
      'Mail servers in the order of the attempts.',
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
      expires_at: time('Time of expiry, or null when the suppression does not expire.').nullable(),
    })
    .nullable(),
  route: mailRoute
    .nullable()
    .describe('Route to the recipient, or null for a suppressed recipient.'),
});

export const dryRun = z
  .object({
    object: z.literal('dry_run'),
    outcome: doc(
      z.enum(['send', 'schedule', 'hold', 'replay']),
      'Predicted outcome. `hold`: the sending domain is paused. `replay`: the Idempotency-Key was used for ' +
        'the same email, and nothing would be sent.',
    ),
    replay_of: idSchema(
      'Email that was sent with the Idempotency-Key, or null without one.',
    ).nullable(),
    scheduled_at: time('Time at which the email would be sent, or null for at once.').nullable(),
    limit: z.object({
      counts: z.enum(['emails', 'recipients']),
      limit: z.number().int(),
      remaining: z
        .number()
        .int()
        .describe('Number left in this window. This email is not counted.'),
      reset: z.number().int().describe('Seconds until the window ends.'),
      window: z.number().int().describe('Length of the window in seconds.'),
    }),
    tracking: doc(
      z.object({ opens: z.boolean(), clicks: z.boolean() }).nullable(),
      'Tracking that would apply, of the email or its domain, or null for a replay.',
    ),
    message: doc(
      z
        .object({
          size: z.number().int().describe('Size of the message with all signatures, in bytes.'),
          headers: doc(
            z.array(z.object({ name: z.string(), value: z.string() })),
            'Headers in the order of the message, unfolded.',
          ),
        })
        .nullable(),
      'Message that would be sent, or null for a replay.',
    ),
    sender: z.object({ domain: z.string(), ...authentication }).nullable(),
    recipients: z.array(recipient),
    lint: doc(
      z.array(
        z.object({
          code: z.enum(LINT_CODES).describe('Stable code of the finding.'),
          message: z.string().describe('One sentence about the likely problem.'),
        }),
      ),
      'Advice about the email. It does not prevent acceptance.',
    ),
  })
  .meta({ id: 'DryRun' });

/** The 200 of POST /v1/emails: `object` says whether it is an email or a dry run. */
export const acceptedEmailOrDryRun = z.discriminatedUnion('object', [acceptedEmail, dryRun]).meta({
  id: 'AcceptedEmailOrDryRun',
  discriminator: {
    propertyName: 'object',
    mapping: {
      email: '#/components/schemas/AcceptedEmail',
      dry_run: '#/components/schemas/DryRun',
    },
  },
});
