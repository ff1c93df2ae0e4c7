/** The parts of `oidc-provider` that identity-provider.ts uses. The package has no types. */
declare module 'oidc-provider' {
  import type { IncomingMessage, ServerResponse } from 'node:http';

  type Grant = { addOIDCScope(scope: string): void; save(): Promise<string> };
  type Context = {
    path: string;
    // oxlint-disable-next-line typescript/no-explicit-any
    body: any;
    oidc: {
      session: { accountId: string };
      provider: { Grant: new (of: { clientId: string; accountId: string }) => Grant };
    };
  };
  type Configuration = {
    clients: object[];
    jwks: { keys: object[] };
    cookies: { keys: string[] };
    claims: Record<string, string[]>;
    features: Record<string, { enabled: boolean }>;
    interactions: { url: (context: Context, interaction: { uid: string }) => string };
    findAccount: (
      context: Context,
      sub: string,
    ) => { accountId: string; claims: () => Promise<object> };
    loadExistingGrant: (context: Context) => Promise<Grant>;
  };

  export class Provider {
    constructor(issuer: string, configuration: Configuration);
    use(middleware: (context: Context, next: () => Promise<void>) => Promise<void>): void;
    callback(): (request: IncomingMessage, response: ServerResponse) => Promise<void>;
    interactionFinished(
      request: IncomingMessage,
      response: ServerResponse,
      result: { login: { accountId: string } },
    ): Promise<void>;
  }
}
