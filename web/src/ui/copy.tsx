import { Check, Copy } from 'lucide-react';
import { type ReactNode, useEffect, useState } from 'react';
import { copyText } from '../lib/clipboard.ts';
import { IconButton } from './button.tsx';

const SHOWN_MS = 1_500;

/** @param what completes "Copy the" */
export function CopyButton({ text, what }: { text: string; what: string }): ReactNode {
  const [result, setResult] = useState<'copied' | 'failed' | null>(null);
  useEffect(() => {
    if (result !== 'copied') return;
    const timer = setTimeout(() => setResult(null), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [result]);
  const copy = (): void => {
    void copyText(text).then((isCopied) => setResult(isCopied ? 'copied' : 'failed'));
  };
  const labels = { copied: 'Copied', failed: `Copying failed: select the ${what} and copy it` };
  const label = result === null ? `Copy the ${what}` : labels[result];
  return (
    <IconButton label={label} onClick={copy} className="h-7! w-7!">
      {result === 'copied' ? <Check size={14} aria-hidden /> : <Copy size={14} aria-hidden />}
    </IconButton>
  );
}
