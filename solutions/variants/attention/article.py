"""As in the article: -1e9 where the mask is 0, and F.softmax."""

import math

import torch
import torch.nn.functional as F


def stable_softmax(scores, dim=-1):
    maximum, _ = torch.max(scores, dim=dim, keepdim=True)
    exps = torch.exp(scores - maximum)
    return exps / torch.sum(exps, dim=dim, keepdim=True)


def scaled_dot_product_attention(query, key, value, mask=None):
    d_k = query.size(-1)
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    attention_weights = F.softmax(scores, dim=-1)
    output = torch.matmul(attention_weights, value)
    return output, attention_weights


def self_attention(x, w_q, w_k, w_v, mask=None):
    Q = torch.matmul(x, w_q)
    K = torch.matmul(x, w_k)
    V = torch.matmul(x, w_v)
    return scaled_dot_product_attention(Q, K, V, mask)


def cross_attention(x, memory, w_q, w_k, w_v, mask=None):
    Q = torch.matmul(x, w_q)
    K = torch.matmul(memory, w_k)
    V = torch.matmul(memory, w_v)
    return scaled_dot_product_attention(Q, K, V, mask)
