/** MTA-STS hosts `mta-sts.sts1.test` to `mta-sts.sts30.test`: an HTTPS server whose responses a test sets. */
import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { createSecureContext } from 'node:tls';

export type PolicyResponse = {
  status?: number;
  headers?: Record<string, string>;
  body?: string;
  /** A file of test/support/certs; default `policy`, which is valid for the hosts above. */
  certificate?: 'policy' | 'self-signed' | 'other-name';
};

export type PolicyServer = AsyncDisposable & {
  readonly port: number;
  /** `<domain><path>` of all requests so far. */
  readonly requests: string[];
  set(domain: string, policy: PolicyResponse): void;
};

/** Returns a policy in the form of the RFC. */
export function policyText(
  mode: 'enforce' | 'testing' | 'none',
  mx: readonly string[],
  maxAgeS = 86_400,
): string {
  const lines = ['version: STSv1', `mode: ${mode}`, ...mx.map((host) => `mx: ${host}`)];
  return [...lines, `max_age: ${maxAgeS}`, ''].join('\r\n');
}

export async function startPolicyServer(): Promise<PolicyServer> {
  const policies = new Map<string, PolicyResponse>();
  const requests: string[] = [];
  const domainOf = (host: string | undefined): string =>
    (host ?? '').replace(/:\d+$/, '').replace(/^mta-sts\./, '');
  const server = createServer(
    {
      ...keyPair('policy'),
      SNICallback: (name, done) => {
        const { certificate = 'policy' } = policies.get(domainOf(name)) ?? {};
        done(null, createSecureContext(keyPair(certificate)));
      },
    },
    (request, response) => {
      const domain = domainOf(request.headers.host);
      requests.push(`${domain}${request.url}`);
      const { status = 200, headers = {}, body = '' } = policies.get(domain) ?? { status: 404 };
      response.writeHead(status, { 'content-type': 'text/plain', ...headers }).end(body);
    },
  );
  server.on('tlsClientError', () => {});
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    requests,
    set: (domain, policy) => void policies.set(domain, policy),
    [Symbol.asyncDispose]: () => close(server),
  };
}

function keyPair(name: string): { key: Buffer; cert: Buffer } {
  const pem = readFileSync(new URL(`certs/${name}.pem`, import.meta.url));
  return { key: pem, cert: pem };
}

async function close(server: Server): Promise<void> {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
}
