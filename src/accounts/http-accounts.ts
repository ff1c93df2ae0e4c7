/**
 * Constructs the services by which HTTP identifies callers: keys, sessions and sign-in. They share one limiter of
 * failed attempts. SMTP constructs its own (service/worker/server-mail.ts).
 */
import type { Logger } from 'pino';
import type { Config } from '../config/config.ts';
import type { Database } from '../database/database.ts';
import type { World } from '../lib/world.ts';
import type { SecretBox } from '../secrets/secret-box.ts';
import { AuthLimiter } from './keys/auth-limiter.ts';
import { KeyCache } from './keys/key-cache.ts';
import { KeyUsage } from './keys/key-usage.ts';
import { CALLBACK_PATH, IdentityProvider } from './oidc/identity-provider.ts';
import { type OidcProgress, OidcSignIn } from './oidc/oidc-sign-in.ts';
import { type PasskeyProgress, Passkeys } from './passkeys/passkeys.ts';
import { Sessions } from './sessions/http-sessions.ts';
import { Devices } from './sign-in/devices.ts';
import { Passwords } from './sign-in/passwords.ts';
import { SealedText } from './progress/sealed-text.ts';
import { SecondFactor } from './sign-in/second-factor.ts';
import { SignIn } from './sign-in/sign-in.ts';
import { SignInLimits } from './sign-in/sign-in-limits.ts';

export type HttpAccounts = {
  keys: KeyCache;
  keyUsage: KeyUsage;
  limiter: AuthLimiter;
  sessions: Sessions;
  secondFactor: SecondFactor;
  signIn: SignIn;
  /** null: members sign in with passwords only. */
  oidc: OidcSignIn | null;
  passkeys: Passkeys;
};

type Context = {
  db: Database;
  world: Pick<World, 'monotonicMs' | 'now'>;
  config: Pick<Config, 'limits' | 'publicUrl' | 'oidc'>;
  localUrl: string;
  secrets: SecretBox;
  log: Pick<Logger, 'warn'>;
};

export function createHttpAccounts(context: Context): HttpAccounts {
  const { db, world, config, secrets } = context;
  const limiter = new AuthLimiter(db, world, config.limits.auth);
  const secondFactor = new SecondFactor({ db, world, secrets });
  const signIn = new SignIn({
    db,
    limiter,
    limits: new SignInLimits(db, world, config.limits.auth),
    devices: new Devices(secrets),
    passwords: new Passwords(),
    secondFactor,
    endsPasswords: config.oidc?.endsPasswords === true,
  });
  return {
    keys: new KeyCache(db.checking, world),
    keyUsage: new KeyUsage(db),
    limiter,
    sessions: new Sessions({ ...context, db: db.checking, limiter }),
    secondFactor,
    signIn,
    oidc: createOidc(context, { limiter, secondFactor, signIn }),
    passkeys: new Passkeys({
      db,
      limiter,
      signIn,
      sealed: new SealedText<PasskeyProgress>(context, 'passkey'),
      siteUrl: config.publicUrl ?? context.localUrl,
    }),
  };
}

function createOidc(
  context: Context,
  parts: Pick<HttpAccounts, 'limiter' | 'secondFactor' | 'signIn'>,
): OidcSignIn | null {
  const {
    db,
    config: { oidc: config, publicUrl },
    localUrl,
  } = context;
  // A stub of the configuration has none.
  if (config == null) return null;
  const redirectUri = `${publicUrl ?? localUrl}${CALLBACK_PATH}`;
  const provider = new IdentityProvider({ ...context, config, redirectUri });
  const sealed = new SealedText<OidcProgress>(context, 'sign-in with the identity provider');
  return new OidcSignIn({ ...parts, db, config, provider, sealed });
}
