/**
 * Constructs the services by which HTTP identifies callers: keys, sessions and sign-in. They share one limiter of
 * failed attempts. SMTP constructs its own (service/worker/server-mail.ts).
 */
import type { Config } from '../config/config.ts';
import type { Database } from '../database/database.ts';
import type { World } from '../lib/world.ts';
import type { SecretBox } from '../secrets/secret-box.ts';
import { AuthLimiter } from './keys/auth-limiter.ts';
import { KeyCache } from './keys/key-cache.ts';
import { KeyUsage } from './keys/key-usage.ts';
import { Sessions } from './sessions/http-sessions.ts';
import { Devices } from './sign-in/devices.ts';
import { Passwords } from './sign-in/passwords.ts';
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
};

export function createHttpAccounts(context: {
  db: Database;
  world: Pick<World, 'monotonicMs'>;
  config: Pick<Config, 'limits' | 'publicUrl'>;
  localUrl: string;
  secrets: SecretBox;
}): HttpAccounts {
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
  });
  return {
    keys: new KeyCache(db.checking, world),
    keyUsage: new KeyUsage(db),
    limiter,
    sessions: new Sessions({ ...context, db: db.checking, limiter }),
    secondFactor,
    signIn,
  };
}
