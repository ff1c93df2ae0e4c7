/**
 * Signs in by the identity provider: from its response to the token of a session. identity-provider.ts verifies the
 * response, and admission.ts decides which member the account is.
 *
 * A sign-in has a cookie (`progress`) from its begin to its end, so it ends in the browser where it began. A response
 * is used once, on all nodes, also when it is refused. Failures count against the limit on failed authentications.
 */
import type { OidcConfig } from '../../config/oidc.ts';
import { signInLimitRefusal } from '../../core/limits.ts';
import { isRefusal, type Refusal } from '../../core/refusals.ts';
import type { Database } from '../../database/database.ts';
import type { AuthLimiter } from '../keys/auth-limiter.ts';
import { findMemberById } from '../members/member-store.ts';
import { useChallenge } from '../progress/challenge-store.ts';
import type { SealedText } from '../progress/sealed-text.ts';
import type { SecondFactor } from '../sign-in/second-factor.ts';
import type { Origin, SignedIn, SignIn, SignInRefusal } from '../sign-in/sign-in.ts';
import { admit } from './admission.ts';
import type { Flow, IdentityProvider } from './identity-provider.ts';

/** The sign-in is at the provider, or waits for the code of an authenticator app. */
export type OidcProgress = { kind: 'provider'; flow: Flow } | { kind: 'code'; memberId: string };

/** `progress` is the content of the cookie for the next request; null removes it. */
type WithProgress<Result> = { result: Result; progress: string | null };

const NOT_BEGUN: Refusal = {
  refused: 'authentication_error',
  message:
    'This sign-in began in another browser or more than ten minutes ago. Begin again on this page.',
};
const USED: Refusal = {
  refused: 'authentication_error',
  message: 'This sign-in was used already. Begin again on this page.',
};
const ACCOUNT_GONE: Refusal = {
  refused: 'not_found',
  message: 'This account no longer exists.',
};

type OidcSignInOptions = {
  db: Database;
  config: OidcConfig;
  provider: IdentityProvider;
  limiter: AuthLimiter;
  sealed: SealedText<OidcProgress>;
  secondFactor: SecondFactor;
  signIn: SignIn;
};

export class OidcSignIn {
  readonly #options: OidcSignInOptions;

  constructor(options: OidcSignInOptions) {
    this.#options = options;
  }

  /** The provider's name on the sign-in page. */
  get name(): string {
    return this.#options.config.name;
  }

  async begin(): Promise<{ url: string; progress: string } | Refusal> {
    const { provider, sealed } = this.#options;
    const begun = await provider.begin();
    if (isRefusal(begun)) return begun;
    const { url, flow } = begun;
    return { url, progress: sealed.seal({ kind: 'provider', flow }) };
  }

  /**
   * Ends a sign-in with the provider's response, or continues it with a code of the second factor.
   * @throws DatabaseUnavailable
   */
  async finish(
    { response, code }: { response: string; code?: string | undefined },
    origin: Origin,
    progress: string | null,
  ): Promise<WithProgress<SignedIn | SignInRefusal>> {
    const begun = this.#options.sealed.open(progress);
    if (begun === null) return { result: NOT_BEGUN, progress: null };
    if (begun.kind === 'code') return this.#continue(begun.memberId, { code, origin, progress });
    const { limiter } = this.#options;
    const { allowed, limit } = await limiter.count(origin.client);
    if (!allowed) return { result: signInLimitRefusal(limit), progress };
    const account = await this.#readAccount(response, begun.flow);
    const member = isRefusal(account)
      ? account
      : await admit(this.#options, account, { network: origin.network });
    // An outage of the provider is nobody's guess.
    const isGuess = isRefusal(member) && member.refused !== 'service_unavailable';
    if (!isGuess) await limiter.uncount([origin.client]);
    if (isRefusal(member)) return { result: member, progress: null };
    const hasSecondFactor = !isRefusal(account) && account.hasSecondFactor;
    return this.#continue(member.id, { code, origin, hasSecondFactor });
  }

  async #readAccount(response: string, flow: Flow) {
    const { db, provider } = this.#options;
    if (!(await useChallenge(db, flow.state))) return USED;
    return provider.finish(response, flow);
  }

  async #continue(
    memberId: string,
    {
      code,
      origin,
      hasSecondFactor = false,
      progress,
    }: {
      code: string | undefined;
      origin: Origin;
      hasSecondFactor?: boolean;
      /** Made by an earlier request for a code. It keeps its time: the provider's response is valid for minutes. */
      progress?: string | null;
    },
  ): Promise<WithProgress<SignedIn | SignInRefusal>> {
    const { db, config, sealed, secondFactor, signIn } = this.#options;
    const takesPasskeys = !config.endsPasswords;
    const refusal = hasSecondFactor
      ? null
      : await secondFactor.check(memberId, code, { takesPasskeys });
    if (refusal !== null) {
      return { result: refusal, progress: progress ?? sealed.seal({ kind: 'code', memberId }) };
    }
    const member = await findMemberById(db, memberId);
    if (member === null) return { result: ACCOUNT_GONE, progress: null };
    return {
      result: await signIn.startSession(member, origin, { hasSecondFactor }),
      progress: null,
    };
  }
}
