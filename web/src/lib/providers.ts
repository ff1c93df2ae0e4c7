/** Names of the providers that many know. Others, like single hosts, are named as in the queue. */
const NAMES: Readonly<Record<string, string>> = {
  google: 'Google',
  outlook: 'Outlook',
  office365: 'Microsoft 365',
  microsoft: 'Microsoft',
  yahoo: 'Yahoo',
  apple: 'Apple',
  orange: 'Orange',
  comcast: 'Comcast',
  mimecast: 'Mimecast',
  simulator: 'the simulator',
};

/** @param provider its key, as in the queue and on the command line */
export const providerName = (provider: string): string => NAMES[provider] ?? provider;

/** A sentence of the service that may begin with the key of the provider. */
export function withProviderName(sentence: string, provider: string): string {
  const isAboutIt = sentence.startsWith(`${provider} `);
  return isAboutIt ? providerName(provider) + sentence.slice(provider.length) : sentence;
}
