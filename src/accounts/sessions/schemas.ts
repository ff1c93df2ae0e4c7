/** Schemas of sessions and of signing in. */
import { z } from 'zod';
import { PASSWORD_CHARACTERS_MAX, PASSWORD_CHARACTERS_MIN } from '../sign-in/passwords.ts';
import { ROLES } from '../../core/member-roles.ts';
import { deleted, doc, environment, idSchema, label, listOf, time } from '../../http/schemas.ts';

export const role = doc(z.enum(ROLES), 'Role of the member. Each role includes those after it.');

export const memberName = doc(label(100), 'Display name of the member.', 'Jo Doe');

export const email = doc(
  z.string().min(3).max(320),
  'Email address for signing in.',
  'jo@acme.com',
);

const password = (description: string) =>
  doc(z.string().min(1).max(PASSWORD_CHARACTERS_MAX), description, 'correct horse battery staple');

export const newPassword = password(
  `New password of at least ${PASSWORD_CHARACTERS_MIN} characters.`,
);

export const linkToken = doc(
  z.string().min(1).max(200),
  'Token of the link: the part after `=`.',
  'Ft3pVbGzvYk2wqS1m0n8cJxHdR5aLuE7TiOQe9ZfK4A',
);

export const totpOrRecoveryCode = doc(
  z.string().max(64),
  'Code from the authenticator app, or a recovery code.',
  '123456',
);

export const signIn = z
  .strictObject({ email, password: password('The password.'), code: totpOrRecoveryCode.optional() })
  .meta({ id: 'Credentials' });

export const totpState = z
  .object({
    object: z.literal('totp'),
    enabled: z.boolean().describe('True when signing in requires a code.'),
    recovery_codes_left: z
      .int()
      .meta({ description: 'Number of unused recovery codes.', examples: [10] }),
  })
  .meta({ id: 'Totp' });

export const passwordConfirmation = z
  .strictObject({
    password: password(
      'Your password. A member without one leaves it out within 15 minutes of signing in.',
    ).optional(),
  })
  .meta({ id: 'PasswordConfirmation' });

export const totpSecret = z
  .object({
    object: z.literal('totp_secret'),
    secret: z.string().meta({
      description: 'Secret to enter in an authenticator app.',
      examples: ['JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP'],
    }),
    url: z.string().meta({
      description: 'The secret as a URL for a QR code.',
      examples: ['otpauth://totp/Letterhaus%20Acme:jo%40acme.com?secret=JBSWY3DPEHPK3PXP'],
    }),
  })
  .meta({ id: 'TotpSecret' });

export const totpCode = z.strictObject({ code: totpOrRecoveryCode }).meta({ id: 'TotpCode' });

export const recoveryCodes = z
  .object({
    object: z.literal('recovery_codes'),
    recovery_codes: doc(
      z.array(z.string().meta({ examples: ['abcd-efgh-2345-6723'] })),
      'Recovery codes. Each one works once instead of a code from the app. They are returned only here.',
    ),
  })
  .meta({ id: 'RecoveryCodes' });

export const newOwner = z
  .strictObject({ token: linkToken, email, name: memberName, password: newPassword })
  .meta({ id: 'OwnerCreation' });

export const passwordReset = z
  .strictObject({ token: linkToken, password: newPassword })
  .meta({ id: 'PasswordReset' });

export const passwordChange = z
  .strictObject({ current_password: password('Your current password.'), password: newPassword })
  .meta({ id: 'PasswordChange' });

const named = { name: z.string().meta({ examples: ['Acme'] }) };

export const session = z
  .object({
    object: z.literal('session'),
    id: idSchema('The session.'),
    member: z.object({
      id: idSchema('The member who is signed in.'),
      email: z.string().meta({ examples: ['jo@acme.com'] }),
      name: memberName,
      role,
      has_password: z
        .boolean()
        .describe(
          'False for a member who joined by the identity provider and has set no password.',
        ),
      has_all_projects: z
        .boolean()
        .describe('False when the member has roles in some projects of the organization only.'),
    }),
    organization: z.object({ id: idSchema('The organization of the member.'), ...named }),
    projects: doc(
      z.array(
        z.object({ id: idSchema('Value for the header Letterhaus-Project.'), ...named, role }),
      ),
      'The projects in which the member has a role, oldest first. The first one is the default.',
    ),
    environments: doc(
      z.array(environment),
      'Values for the header Letterhaus-Environment. The default is `test`.',
    ),
    totp_enabled: z.boolean().describe('True when signing in requires a code.'),
    must_enrol: z
      .boolean()
      .describe(
        'True while the member has to set up the second factor that the installation requires.',
      ),
    created_at: time('Time of the sign-in.'),
    expires_at: time('Time of expiry unless the session is used before.'),
  })
  .meta({ id: 'Session' });

export const setup = z
  .object({
    object: z.literal('setup'),
    needs_owner: doc(z.boolean(), 'True while the installation has no owner.'),
    oidc: z
      .object({
        name: z.string().meta({
          description: 'Name of the identity provider.',
          examples: ['login.example.com'],
        }),
      })
      .nullable()
      .describe('Identity provider that members can sign in with; null for none.'),
    passkeys: z.boolean().describe('True when the dashboard has a host name, which passkeys need.'),
  })
  .meta({ id: 'Setup' });

export const sessionEnded = z
  .object({ object: z.literal('session'), id: idSchema('The session.'), deleted: z.literal(true) })
  .meta({ id: 'SessionEnded' });

export const sessionsEnded = z
  .object({
    object: z.literal('session'),
    count: z.int().meta({ description: 'Number of ended sessions.', examples: [3] }),
    deleted: z.literal(true),
  })
  .meta({ id: 'SessionsEnded' });

export const ownSessions = listOf(
  'OwnSessionList',
  z
    .object({
      object: z.literal('session'),
      id: idSchema('The session.'),
      is_current: z.boolean().describe('True for the session of this request.'),
      network: doc(z.string(), 'Network of the sign-in.', '203.0.113.0'),
      user_agent: doc(z.string().nullable(), 'User agent of the browser.', 'Mozilla/5.0'),
      created_at: time('Time of the sign-in.'),
      last_used_at: time('Time of the last use, to the minute.'),
    })
    .meta({ id: 'OwnSession' }),
);

export const ownSessionEnded = deleted('DeletedSession', 'session');

export const passwordChanged = z
  .object({ object: z.literal('password'), changed: z.literal(true) })
  .meta({ id: 'PasswordChanged' });
